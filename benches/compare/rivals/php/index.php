<?php
// The rival in PHP: PDO, and PHP's own server with a worker per database connection.
//
// What those who know it would choose:
//   - persistent connections, so that a request does not begin with opening one;
//   - PostgreSQL's driver fetches a whole result at once, so lists are read through a cursor, 1,000 rows a time;
//   - json_encode per row; the text of 32 KiB is echoed at once;
//   - the opcode cache is on (see the command line in the driver).
declare(strict_types=1);

const CHUNK = 32 << 10;

const AUTHORS = 'select id, first_name as "firstName", last_name as "lastName", email, born, country, active, books, royalties,
       motto, to_char(joined at time zone \'UTC\', \'YYYY-MM-DD"T"HH24:MI:SS.USZ\') as joined from author';
const EVENTS = 'select event_no as "eventNo", paymt_status as "paymentStatus", status_chg_rsn as "statusChangeReason",
       to_char(status_chg_date at time zone \'UTC\', \'YYYY-MM-DD"T"HH24:MI:SS.USZ\') as "statusChanged"
  from payment_event order by event_no';

function connect(): PDO
{
    $address = sprintf('pgsql:host=%s;port=%s;dbname=%s;sslmode=disable', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE'));
    return new PDO($address, getenv('PGUSER'), getenv('PGPASSWORD'), [
        PDO::ATTR_PERSISTENT => true,
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
    ]);
}

function json(array $row): string
{
    // Decimals come as texts.
    if (isset($row['royalties'])) {
        $row['royalties'] = (float) $row['royalties'];
    }
    return json_encode($row, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR);
}

function sendList(string $sql, string $mediaType, string $open, string $between, string $close): void
{
    $database = connect();
    $database->beginTransaction();
    $database->exec("declare list no scroll cursor for $sql");
    header("Content-Type: $mediaType");
    $text = $open;
    $separator = '';
    do {
        $rows = $database->query('fetch 1000 from list')->fetchAll();
        foreach ($rows as $row) {
            $text .= $separator . json($row);
            $separator = $between;
            if (strlen($text) >= CHUNK) {
                echo $text;
                $text = '';
            }
        }
    } while ($rows);
    $database->commit();
    echo $text, $close;
}

function sendOne(string $sql, string $id): void
{
    $statement = connect()->prepare($sql);
    $statement->execute([$id]);
    $row = $statement->fetch();
    if ($row === false) {
        http_response_code(404);
        return;
    }
    header('Content-Type: application/json');
    echo json($row);
}

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path === '/authors') {
    sendList(AUTHORS . ' order by id', 'application/json', '[', ',', ']');
} elseif ($path === '/events') {
    sendList(EVENTS, 'application/json', '{"events":[', ',', ']}');
} elseif ($path === '/events.ndjson') {
    sendList(EVENTS, 'application/x-ndjson', '', "\n", "\n");
} elseif (preg_match('#^/authors/(\d+)$#', $path, $found)) {
    sendOne(AUTHORS . ' where id = ?', $found[1]);
} elseif (preg_match('#^/films/(\d+)$#', $path, $found)) {
    sendOne('select title from film where fid = ?', $found[1]);
} else {
    http_response_code(404);
}
