<?php
// Prints the rows of a list as they arrive, and fails unless all of them did.
declare(strict_types=1);

const MAX_TRIES = 5, MAX_LINE = 16 << 20;

/** A problem document, an error record, or a cut. */
final class Failure extends Exception
{
    public function __construct(string $detail, public bool $retry = true, public int $after = 0)
    {
        parent::__construct($detail);
    }

    public static function of(object $problem): self
    {
        return new self("$problem->detail ($problem->code)", $problem->retry, $problem->retry_after ?? 0);
    }
}

function with(string $url, string $parameter, string $value): string
{
    $parts = preg_split('/[?&]/', $url);
    $others = array_filter($parts, fn ($part) => !str_starts_with($part, "$parameter="));
    return array_shift($others) . '?' . implode('&', [...$others, "$parameter=" . rawurlencode($value)]);
}

/** Yields each row once. Fails if one is missing. */
function rows(string $url): Generator
{
    // PHP has no decimals, so that they and large integers are strings.
    $url = with(with($url, '_end', '1'), '_numbers', 'string');
    for ([$tries, $count, $marks] = [1, 0, false]; ; $tries++) {
        $before = $count;
        try {
            foreach (confirmed($url, $marks) as [$rows, $next]) {
                foreach ($rows as $row) {
                    $count++;
                    yield $row;
                }
                $url = $next === null ? $url : with($url, '_after', $next);
            }
            return;
        } catch (Failure $failure) {
            $tries = $count > $before ? 1 : $tries;
            if (!$failure->retry || $tries === MAX_TRIES || $count > 0 && !$marks) {
                throw $failure;
            }
            usleep(1_000_000 * $failure->after + random_int(0, 100_000 << $tries));
        }
    }
}

/** Yields rows and the next cursor, once a mark or the end confirms them. Without marks, at once. */
function confirmed(string $url, bool &$marks): Generator
{
    [$held, $count, $headers] = [[], 0, []];
    foreach (lines($url, $headers) as $line) {
        if (!isset($headers['rowstream-tag']) || $headers['rowstream-wire'] !== '1') {
            throw new Failure("the response isn't framed, or has another version", false);
        }
        $marks = $headers['rowstream-resume'] === 'marks';
        $record = json_decode($line, flags: JSON_BIGINT_AS_STRING);
        if (!str_starts_with($line, '{"$rowstream":"' . $headers['rowstream-tag'] . '",')) {
            if ($record !== null) { // Otherwise it's a heartbeat, or a row that an error cut.
                $held[] = $record;
                $count++;
            }
            $record = (object) [];
        }
        if (isset($record->error)) {
            throw Failure::of($record->error);
        }
        $counted = $record->end ?? $record->mark ?? null;
        if ($record === null || $counted !== null && $counted->rows !== $count) {
            throw new Failure('rows are missing');
        }
        if ($counted !== null || !$marks) {
            yield [$held, $counted->next ?? null];
            $held = [];
        }
        if (isset($record->end)) {
            return;
        }
    }
    throw new Failure('the end is missing');
}

/** Yields the lines of a body as they arrive. A heartbeat is an empty line. */
function lines(string $url, array &$headers): Generator
{
    $body = '';
    $curl = curl_init($url);
    curl_setopt($curl, CURLOPT_HEADERFUNCTION, function ($curl, $line) use (&$headers) {
        [$name, $value] = explode(':', $line, 2) + [1 => ''];
        $headers[strtolower($name)] = trim($value);
        return strlen($line);
    });
    curl_setopt($curl, CURLOPT_WRITEFUNCTION, function ($curl, $part) use (&$body) {
        $body .= $part;
        return strlen($part);
    });
    $multi = curl_multi_init();
    curl_multi_add_handle($multi, $curl);
    $heard = microtime(true);
    do {
        $size = strlen($body);
        curl_multi_exec($multi, $running);
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        if (strlen($body) > $size) {
            $lines = $status === 200 ? explode("\n", $body) : [$body];
            $body = array_pop($lines);
            yield from $lines;
            $heard = microtime(true);
        }
        // The headers wait for the first row.
        $limit = 3 * (float) ($headers['rowstream-heartbeat'] ?? 20);
        if (strlen($body) > MAX_LINE || microtime(true) - $heard > $limit) {
            throw new Failure('nothing arrives, or a row is too long');
        }
        $running && curl_multi_select($multi, 0.2);
    } while ($running);
    if ($status !== 200 && $status !== 0) {
        $problem = json_decode($body);
        $passes = in_array($status, [408, 429, 502, 503, 504]);
        throw is_object($problem) ? Failure::of($problem) : new Failure("HTTP $status", $passes);
    }
}

try {
    $count = 0;
    foreach (rows($argv[1]) as $row) {
        fwrite(STDOUT, json_encode($row, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE) . "\n") or exit(1);
        $count++;
    }
    fwrite(STDERR, "$count rows, and none is missing\n");
} catch (Failure $failure) {
    fwrite(STDERR, "rows are missing: {$failure->getMessage()}\n");
    exit(1);
}
