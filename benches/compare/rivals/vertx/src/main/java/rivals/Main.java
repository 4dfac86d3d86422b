package rivals;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import io.vertx.pgclient.PgBuilder;
import io.vertx.pgclient.PgConnectOptions;
import io.vertx.sqlclient.Pool;
import io.vertx.sqlclient.PoolOptions;
import io.vertx.sqlclient.PreparedStatement;
import io.vertx.sqlclient.Row;
import io.vertx.sqlclient.RowStream;
import io.vertx.sqlclient.SqlClient;
import io.vertx.sqlclient.SqlConnection;
import io.vertx.sqlclient.Transaction;
import io.vertx.sqlclient.Tuple;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * The rival on Vert.x.
 *
 * <p>What those who know it would choose: an event loop per core, each with its own HTTP server; epoll itself; prepared
 * statements cached; look-ups over a pooled, pipelining client; lists through a cursor of 1,000 rows a fetch, whose rows are
 * written by Jackson's generator into one buffer that leaves when it holds 32 KiB; and the cursor pauses while the response's
 * write queue is full.
 */
public final class Main extends AbstractVerticle {
  private static final int CHUNK = 32 << 10;
  private static final int FETCH = 1000;
  private static final String AUTHOR_COLUMNS =
      "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined from author ";
  private static final String AUTHORS = AUTHOR_COLUMNS + "order by id";
  private static final String AUTHOR = AUTHOR_COLUMNS + "where id = $1";
  private static final String EVENTS =
      "select event_no, paymt_status, status_chg_rsn, status_chg_date from payment_event order by event_no";
  private static final String FILM = "select title from film where fid = $1";
  private static final JsonFactory JSON = new JsonFactory();

  private Pool pool;
  private SqlClient lookUps;

  /** Writes a row as a JSON object. */
  private interface Encoder {
    void write(Row row, JsonGenerator json) throws IOException;
  }

  /** What stands around and between the rows of a list. */
  private record Framing(String mediaType, String open, String between, String close) {}

  private static final Framing ARRAY = new Framing("application/json", "[", ",", "]");
  private static final Framing ENVELOPE = new Framing("application/json", "{\"events\":[", ",", "]}");
  private static final Framing LINES = new Framing("application/x-ndjson", "", "\n", "\n");

  public static void main(String[] arguments) {
    Vertx vertx = Vertx.vertx(new VertxOptions().setPreferNativeTransport(true));
    int loops = Runtime.getRuntime().availableProcessors();
    vertx.deployVerticle(Main.class, new DeploymentOptions().setInstances(loops)).onFailure(failure -> {
      failure.printStackTrace();
      System.exit(1);
    });
  }

  @Override
  public void start(Promise<Void> started) {
    PgConnectOptions address = new PgConnectOptions()
        .setHost(System.getenv("PGHOST"))
        .setPort(Integer.parseInt(System.getenv("PGPORT")))
        .setUser(System.getenv("PGUSER"))
        .setPassword(System.getenv("PGPASSWORD"))
        .setDatabase(System.getenv("PGDATABASE"))
        .setCachePreparedStatements(true)
        .setPipeliningLimit(256);
    int size = Integer.parseInt(System.getenv("POOL"));
    // Shared by name among the event loops, so that the size is that of the process.
    pool = PgBuilder.pool()
        .with(new PoolOptions().setMaxSize(size).setShared(true).setName("lists"))
        .connectingTo(address).using(vertx).build();
    lookUps = PgBuilder.client()
        .with(new PoolOptions().setMaxSize(size).setShared(true).setName("look-ups"))
        .connectingTo(address).using(vertx).build();
    vertx.createHttpServer().requestHandler(this::route)
        .listen(Integer.parseInt(System.getenv("PORT")), "127.0.0.1")
        .<Void>mapEmpty().onComplete(started);
  }

  private void route(HttpServerRequest request) {
    String path = request.path();
    switch (path) {
      case "/authors" -> list(request, AUTHORS, Main::author, ARRAY);
      case "/events" -> list(request, EVENTS, Main::event, ENVELOPE);
      case "/events.ndjson" -> list(request, EVENTS, Main::event, LINES);
      default -> {
        if (path.startsWith("/authors/")) {
          one(request, AUTHOR, path.substring("/authors/".length()), Main::author);
        } else if (path.startsWith("/films/")) {
          one(request, FILM, path.substring("/films/".length()), Main::film);
        } else {
          request.response().setStatusCode(404).end();
        }
      }
    }
  }

  private void one(HttpServerRequest request, String sql, String id, Encoder encoder) {
    HttpServerResponse response = request.response();
    long number;
    try {
      number = Long.parseLong(id);
    } catch (NumberFormatException notANumber) {
      response.setStatusCode(400).end();
      return;
    }
    lookUps.preparedQuery(sql).execute(Tuple.of(number)).onSuccess(rows -> {
      if (rows.size() == 0) {
        response.setStatusCode(404).end();
        return;
      }
      Chunk chunk = new Chunk(512);
      chunk.add(rows.iterator().next(), encoder);
      response.putHeader("Content-Type", "application/json").end(chunk.take());
    }).onFailure(failure -> response.setStatusCode(500).end());
  }

  private void list(HttpServerRequest request, String sql, Encoder encoder, Framing framing) {
    HttpServerResponse response = request.response();
    // A cursor lives in a transaction.
    pool.getConnection().onSuccess(connection -> connection.begin()
        .onSuccess(transaction -> connection.prepare(sql)
            .onSuccess(statement -> stream(response, connection, transaction, statement, encoder, framing))
            .onFailure(failure -> fail(response, connection)))
        .onFailure(failure -> fail(response, connection)))
        .onFailure(failure -> response.setStatusCode(503).end());
  }

  private void stream(HttpServerResponse response, SqlConnection connection, Transaction transaction,
      PreparedStatement statement, Encoder encoder, Framing framing) {
    response.setChunked(true).putHeader("Content-Type", framing.mediaType());
    Chunk chunk = new Chunk(CHUNK + 4096);
    chunk.text(framing.open());
    RowStream<Row> rows = statement.createStream(FETCH);
    boolean[] first = {true};
    response.exceptionHandler(failure -> rows.close());
    response.closeHandler(nothing -> connection.close());
    rows.exceptionHandler(failure -> fail(response, connection));
    rows.endHandler(nothing -> transaction.commit().onComplete(committed -> {
      connection.close();
      chunk.text(framing.close());
      response.end(chunk.take());
    }));
    rows.handler(row -> {
      if (!first[0]) {
        chunk.text(framing.between());
      }
      first[0] = false;
      chunk.add(row, encoder);
      if (chunk.size() >= CHUNK) {
        response.write(chunk.take());
        if (response.writeQueueFull()) {
          rows.pause();
          response.drainHandler(drained -> rows.resume());
        }
      }
    });
  }

  /** Before the head a status; after it the connection is aborted, so that the answer does not look whole. */
  private static void fail(HttpServerResponse response, SqlConnection connection) {
    connection.close();
    if (response.headWritten()) {
      response.reset();
    } else {
      response.setStatusCode(500).end();
    }
  }

  /** Rows that are written and not yet sent. */
  private static final class Chunk {
    private final ByteArrayOutputStream bytes;
    private final JsonGenerator json;

    Chunk(int size) {
      bytes = new ByteArrayOutputStream(size);
      try {
        json = JSON.createGenerator(bytes);
      } catch (IOException impossible) {
        throw new UncheckedIOException(impossible);
      }
      // What stands between rows is our own.
      json.setRootValueSeparator(null);
    }

    void text(String text) {
      try {
        json.writeRaw(text);
      } catch (IOException impossible) {
        throw new UncheckedIOException(impossible);
      }
    }

    void add(Row row, Encoder encoder) {
      try {
        encoder.write(row, json);
      } catch (IOException impossible) {
        throw new UncheckedIOException(impossible);
      }
    }

    /** What the generator has handed over; it keeps at most 8,000 bytes. */
    int size() {
      return bytes.size();
    }

    Buffer take() {
      try {
        json.flush();
      } catch (IOException impossible) {
        throw new UncheckedIOException(impossible);
      }
      Buffer buffer = Buffer.buffer(bytes.toByteArray());
      bytes.reset();
      return buffer;
    }
  }

  private static void author(Row row, JsonGenerator json) throws IOException {
    json.writeStartObject();
    json.writeNumberField("id", row.getLong(0));
    json.writeStringField("firstName", row.getString(1));
    json.writeStringField("lastName", row.getString(2));
    json.writeStringField("email", row.getString(3));
    Object born = row.getLocalDate(4);
    json.writeStringField("born", born == null ? null : born.toString());
    json.writeStringField("country", row.getString(5));
    json.writeBooleanField("active", row.getBoolean(6));
    json.writeNumberField("books", row.getInteger(7));
    json.writeFieldName("royalties");
    json.writeNumber(row.getBigDecimal(8));
    json.writeStringField("motto", row.getString(9));
    json.writeStringField("joined", row.getOffsetDateTime(10).toString());
    json.writeEndObject();
  }

  private static void event(Row row, JsonGenerator json) throws IOException {
    json.writeStartObject();
    json.writeNumberField("eventNo", row.getLong(0));
    json.writeStringField("paymentStatus", row.getString(1));
    json.writeStringField("statusChangeReason", row.getString(2));
    json.writeStringField("statusChanged", row.getOffsetDateTime(3).toString());
    json.writeEndObject();
  }

  private static void film(Row row, JsonGenerator json) throws IOException {
    json.writeStartObject();
    json.writeStringField("title", row.getString(0));
    json.writeEndObject();
  }
}
