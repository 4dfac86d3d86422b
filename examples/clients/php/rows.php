<?php
// Prints the rows of a list as they arrive, and fails unless all of them did.
declare(strict_types=1);

const MAX_TRIES = 5, MAX_LINE = 16 << 20, MAX_PAUSE = 3600, MAX_DEPTH = 10_000;

/** A problem document, an error record, or a cut. */
final class Failure extends Exception
{
    public function __construct(string $detail, public bool $retry = true, string $code = 'cut', public int $after = 0)
    {
        parent::__construct("$detail ($code)");
    }

    /** Tolerates missing members. */
    public static function of(mixed $problem, string $detail, bool $retry): self
    {
        $text = fn (string $name, string $default) => is_string($problem->$name ?? null) ? $problem->$name : $default;
        $after = is_int($problem->retry_after ?? null) ? $problem->retry_after : 0;
        $retry = ($problem->retry ?? $retry) === true;
        return new self($text('detail', $detail), $retry, $text('code', 'cut'), max(0, min(MAX_PAUSE, $after)));
    }
}

/** Replaces a parameter, and keeps the others as they are. */
function with(string $url, string $parameter, string $value): string
{
    [$path, $query] = explode('?', strtok($url, '#'), 2) + [1 => ''];
    $keep = fn ($pair) => $pair !== '' && !str_starts_with("$pair=", "$parameter=");
    $others = array_filter(explode('&', $query), $keep);
    return "$path?" . implode('&', [...$others, "$parameter=" . rawurlencode($value)]);
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
            $tries = $count > $before ? 0 : $tries;
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
        $marks = ($headers['rowstream-resume'] ?? '') === 'marks';
        $record = json_decode($line, depth: MAX_DEPTH, flags: JSON_BIGINT_AS_STRING);
        if (!str_starts_with($line, '{"$rowstream":"' . $headers['rowstream-tag'] . '",')) {
            if ($record !== null) { // Otherwise it's a heartbeat, or a row that an error cut.
                $held[] = $record;
                $count++;
            }
            $record = (object) [];
        }
        if (isset($record->error)) {
            throw Failure::of($record->error, 'an error', false);
        }
        $counted = $record->end ?? (is_string($record->mark->next ?? null) ? $record->mark : null);
        if ($record === null || $counted !== null && ($counted->rows ?? null) !== $count) {
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
}

/** Yields the lines of a body as they arrive. A heartbeat is an empty line. */
function lines(string $url, array &$headers): Generator
{
    [$body, $heard] = ['', microtime(true)];
    $curl = curl_init($url);
    curl_setopt($curl, CURLOPT_HEADERFUNCTION, function ($curl, $line) use (&$headers, &$heard) {
        if (str_starts_with($line, 'HTTP/')) {
            $headers = [];
        }
        [$name, $value] = explode(':', trim($line), 2) + [1 => ''];
        $headers[strtolower($name)] = trim($value); // The last line is empty.
        $heard = $name === '' ? microtime(true) : $heard;
        return strlen($line);
    });
    curl_setopt($curl, CURLOPT_WRITEFUNCTION, function ($curl, $part) use (&$body) {
        $body .= $part;
        return strlen($part);
    });
    $multi = curl_multi_init();
    curl_multi_add_handle($multi, $curl);
    do {
        $size = strlen($body);
        curl_multi_exec($multi, $running);
        $status = isset($headers['']) ? curl_getinfo($curl, CURLINFO_RESPONSE_CODE) : 0;
        if ($status === 200 && (!isset($headers['rowstream-tag']) || ($headers['rowstream-wire'] ?? '') !== '1')) {
            throw new Failure("the response isn't framed, or has another version", false);
        }
        if (strlen($body) > $size) {
            $lines = $status === 200 ? explode("\n", $body) : [$body];
            $body = array_pop($lines);
            yield from $lines;
            $heard = microtime(true);
        }
        // A minute for the headers, which wait for the first row, and for the body of an error.
        $heartbeat = $status === 200 ? (float) ($headers['rowstream-heartbeat'] ?? 200) : 20;
        $limit = 3 * ($heartbeat > 0 && $heartbeat < 3600 ? $heartbeat : 200);
        $is_long = strlen($body) > MAX_LINE;
        $stops = !$running || $is_long || microtime(true) - $heard > $limit;
        $is_problem = str_starts_with($headers['content-type'] ?? '', 'application/problem+json');
        if ($status !== 0 && $status !== 200 && ($stops || !$is_problem)) {
            $passes = in_array($status, [408, 429, 502, 503, 504]);
            throw Failure::of($is_problem ? json_decode($body) : null, "HTTP $status", $passes);
        }
        $stops || curl_multi_select($multi, 0.2);
    } while (!$stops);
    if ($is_long) {
        throw new Failure('a row is too long', false);
    }
    $result = curl_multi_info_read($multi)['result'] ?? CURLE_OPERATION_TIMEDOUT;
    throw new Failure($result === CURLE_OK ? 'the end is missing' : curl_strerror($result));
}

if ($argc !== 2 || !preg_match('~^https?://[^/?#][!-\~]*$~Di', $argv[1])) {
    fwrite(STDERR, "usage: rows.php URL\n");
    exit(1);
}

try {
    $count = 0;
    $flags = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION | JSON_THROW_ON_ERROR;
    foreach (rows($argv[1]) as $row) {
        fwrite(STDOUT, json_encode($row, $flags, MAX_DEPTH) . "\n") or exit(1);
        $count++;
    }
    fwrite(STDERR, "$count rows, and none is missing\n");
} catch (Failure | JsonException $failure) {
    fwrite(STDERR, "rows are missing: {$failure->getMessage()}\n");
    exit(1);
}
