import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.*;
import com.google.gson.stream.*;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Consumer;

/** Prints the rows of a list as they arrive, and fails unless all of them did. */
public class Rows {
  static final int MAX_TRIES = 5, MAX_LINE = 16 << 20, MAX_PAUSE = 3600;
  static final HttpClient CLIENT = HttpClient.newHttpClient();
  static final Gson GSON = new Gson();

  /** A problem document, an error record, or a cut. */
  static class Failure extends Exception {
    String code = "cut";
    boolean retry;
    long retryAfter;

    Failure(String detail, boolean retry) {
      super(detail);
      this.retry = retry;
    }

    Failure(Problem problem, String detail, boolean retry) {
      this(problem.detail != null ? problem.detail : detail, problem.retry != null ? problem.retry : retry);
      code = problem.code != null ? problem.code : code;
      retryAfter = Math.max(0, Math.min(MAX_PAUSE, problem.retry_after));
    }
  }

  static class Problem {
    String code, detail;
    Boolean retry;
    long retry_after;
  }

  static class Counted {
    long rows = -1;
    String next;
  }

  /** A record of the server. It has one of these members. */
  static class Record {
    Counted mark, end;
    Problem error;
  }

  String url;
  Consumer<JsonObject> handle; // gets numbers with all digits: see getAsBigDecimal()
  long rows; // that were handled
  boolean marks; // a cut can be resumed after the last mark

  /** Replaces a parameter, and keeps the others as they are. */
  void set(String parameter, String value) {
    var parts = url.split("#")[0].split("\\?", 2);
    var pairs = new ArrayList<>(List.of(parts.length < 2 ? new String[0] : parts[1].split("&")));
    pairs.removeIf(pair -> pair.isEmpty() || (pair + "=").startsWith(parameter + "="));
    pairs.add(parameter + "=" + URLEncoder.encode(value, UTF_8));
    url = parts[0] + "?" + String.join("&", pairs);
  }

  /** Handles each row once. Fails if one is missing. */
  void read() throws Failure, InterruptedException {
    set("_end", "1");
    for (int tries = 1; ; tries++) {
      long before = rows;
      try {
        request();
        return;
      } catch (Failure failure) {
        tries = rows > before ? 0 : tries;
        if (!failure.retry || tries == MAX_TRIES || rows > 0 && !marks) throw failure;
        long pause = ThreadLocalRandom.current().nextLong(100L << tries);
        Thread.sleep(1000 * failure.retryAfter + pause);
      }
    }
  }

  void request() throws Failure, InterruptedException {
    HttpResponse<Flow.Publisher<List<ByteBuffer>>> response;
    var request = HttpRequest.newBuilder(URI.create(url)).build();
    try { // The headers wait for the first row.
      response = CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofPublisher()).get(1, TimeUnit.MINUTES);
    } catch (ExecutionException | TimeoutException fault) {
      throw new Failure(fault.toString(), true);
    }
    var headers = response.headers();
    var seconds = headers.firstValue("Rowstream-Heartbeat").filter(text -> text.matches("\\d{1,4}(\\.\\d+)?"));
    double heartbeat = seconds.map(Double::parseDouble).filter(number -> number > 0).orElse(200.0);
    var status = response.statusCode();
    try (var body = new Body(status == 200 ? (long) (3000 * heartbeat) : 60_000)) {
      response.body().subscribe(body);
      if (status != 200) {
        var isProblem = headers.firstValue("Content-Type").orElse("").startsWith("application/problem+json");
        var problem = isProblem ? parse(body.line(false), Problem.class) : null;
        var passes = Set.of(408, 429, 502, 503, 504).contains(status);
        throw new Failure(problem != null ? problem : new Problem(), "HTTP " + status, passes);
      }
      var tag = headers.firstValue("Rowstream-Tag");
      if (tag.isEmpty() || !headers.firstValue("Rowstream-Wire").equals(Optional.of("1")))
        throw new Failure("the response isn't framed, or has another version", false);
      marks = headers.firstValue("Rowstream-Resume").equals(Optional.of("marks"));
      records(body, "{\"$rowstream\":\"" + tag.get() + "\",");
    }
  }

  /** Holds rows until a mark or the end confirms them. Without marks, handles them at once. */
  void records(Body body, String start) throws Failure, InterruptedException {
    var held = new ArrayList<JsonObject>();
    for (long count = 0; ; ) {
      String line = body.line(true);
      var record = new Record();
      if (line.startsWith(start)) {
        record = parse(line, Record.class);
      } else {
        var row = parse(line, JsonObject.class);
        if (row != null) { // Otherwise it's a heartbeat, or a row that an error cut.
          held.add(row);
          count++;
        }
      }
      if (record == null) throw new Failure("a record isn't whole", true);
      if (record.error != null) throw new Failure(record.error, "an error", false);
      var end = record.end;
      var mark = record.mark != null && record.mark.next != null ? record.mark : null;
      var confirmed = end != null ? end : mark;
      if (confirmed != null && confirmed.rows != count) throw new Failure("rows are missing", true);
      if (confirmed != null || !marks) {
        held.forEach(handle);
        rows += held.size();
        held.clear();
      }
      if (end != null) return;
      if (confirmed != null) set("_after", confirmed.next);
    }
  }

  static <T> T parse(String line, Class<T> type) {
    try {
      var reader = new JsonReader(new StringReader(line));
      reader.setStrictness(Strictness.STRICT);
      T value = GSON.fromJson(reader, type);
      return value == null || reader.peek() == JsonToken.END_DOCUMENT ? value : null;
    } catch (JsonParseException | IOException fault) {
      return null;
    }
  }

  /** A body with a time limit, which `BodyHandlers.ofInputStream()` lacks. */
  static class Body implements Flow.Subscriber<List<ByteBuffer>>, AutoCloseable {
    static final List<ByteBuffer> END = List.of();
    final BlockingQueue<List<ByteBuffer>> parts = new LinkedBlockingQueue<>();
    final Deque<ByteBuffer> part = new ArrayDeque<>();
    final long silence;
    volatile Flow.Subscription subscription;

    Body(long silence) { this.silence = silence; }

    /** The next line. If it needn't be whole, the rest of the body. */
    String line(boolean whole) throws Failure, InterruptedException {
      var line = new ByteArrayOutputStream();
      while (line.size() < MAX_LINE) {
        if (part.isEmpty()) {
          var next = parts.poll(silence, TimeUnit.MILLISECONDS);
          if ((next == END || next == null) && !whole) return line.toString(UTF_8);
          if (next == END || next == null) throw new Failure("the end is missing", true);
          subscription.request(1);
          part.addAll(next);
        } else if (!part.peek().hasRemaining()) {
          part.remove();
        } else {
          byte next = part.peek().get();
          if (next == '\n' && whole) return line.toString(UTF_8);
          line.write(next);
        }
      }
      throw new Failure("a row is too long", false);
    }

    public void onSubscribe(Flow.Subscription subscription) {
      this.subscription = subscription;
      subscription.request(1);
    }

    public void onNext(List<ByteBuffer> next) { parts.add(next); }

    public void onError(Throwable fault) { parts.add(END); }

    public void onComplete() { parts.add(END); }

    public void close() { if (subscription != null) subscription.cancel(); }
  }

  static boolean isUsable(String url) {
    try {
      return url.matches("(?i)https?://[^/?#][!-~]*") && new URI(url).getHost() != null;
    } catch (URISyntaxException fault) {
      return false;
    }
  }

  public static void main(String[] arguments) throws Exception {
    var all = new Rows();
    if (arguments.length != 1 || !isUsable(arguments[0])) {
      System.err.println("usage: Rows URL");
      System.exit(1);
    }
    all.url = arguments[0];
    all.handle = row -> System.out.writeBytes((row + "\n").getBytes(UTF_8));
    try {
      all.read();
    } catch (Failure failure) {
      System.out.flush();
      System.err.printf("rows are missing: %s (%s)%n", failure.getMessage(), failure.code);
      System.exit(1);
    }
    if (System.out.checkError()) System.exit(1);
    System.err.println(all.rows + " rows, and none is missing");
  }
}
