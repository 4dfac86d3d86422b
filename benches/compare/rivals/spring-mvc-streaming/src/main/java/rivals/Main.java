package rivals;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.Map;
import javax.sql.DataSource;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;

/**
 * The rival that streams with Spring MVC: a cursor of JDBC, and Jackson's generator onto the response.
 *
 * <p>What those who know it would choose: autocommit off and a fetch size, without which PostgreSQL's driver reads the whole
 * result first; StreamingResponseBody; Jackson's streaming generator without databind; a buffered stream of 32 KiB.
 */
@SpringBootApplication
@RestController
public class Main {
  private static final int CHUNK = 32 << 10;
  private static final int FETCH = 1000;
  private static final JsonFactory JSON = new JsonFactory();
  private static final String AUTHORS =
      "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined from author ";
  private static final String EVENTS =
      "select event_no, paymt_status, status_chg_rsn, status_chg_date from payment_event order by event_no";

  private final DataSource source;
  private final JdbcTemplate database;

  Main(DataSource source, JdbcTemplate database) {
    this.source = source;
    this.database = database;
  }

  public static void main(String[] arguments) {
    SpringApplication.run(Main.class, arguments);
  }

  private interface Encoder {
    void write(ResultSet row, JsonGenerator json) throws SQLException, IOException;
  }

  private record Framing(MediaType mediaType, String open, String between, String close) {}

  private static final Framing ARRAY = new Framing(MediaType.APPLICATION_JSON, "[", ",", "]");
  private static final Framing ENVELOPE = new Framing(MediaType.APPLICATION_JSON, "{\"events\":[", ",", "]}");
  private static final Framing LINES = new Framing(MediaType.APPLICATION_NDJSON, "", "\n", "\n");

  @GetMapping("/authors")
  ResponseEntity<StreamingResponseBody> authors() {
    return list(AUTHORS + "order by id", Main::author, ARRAY);
  }

  @GetMapping("/events")
  ResponseEntity<StreamingResponseBody> events() {
    return list(EVENTS, Main::event, ENVELOPE);
  }

  @GetMapping("/events.ndjson")
  ResponseEntity<StreamingResponseBody> lines() {
    return list(EVENTS, Main::event, LINES);
  }

  @GetMapping("/films/{id}")
  ResponseEntity<Map<String, Object>> film(@PathVariable long id) {
    return one("select title from film where fid = ?", id);
  }

  @GetMapping("/authors/{id}")
  ResponseEntity<Map<String, Object>> author(@PathVariable long id) {
    return one(AUTHORS.replace("first_name", "first_name as \"firstName\"").replace("last_name", "last_name as \"lastName\"")
        + "where id = ?", id);
  }

  private ResponseEntity<Map<String, Object>> one(String sql, long id) {
    return database.queryForList(sql, id).stream().findFirst().map(ResponseEntity::ok)
        .orElseGet(() -> ResponseEntity.status(HttpStatus.NOT_FOUND).build());
  }

  private ResponseEntity<StreamingResponseBody> list(String sql, Encoder encoder, Framing framing) {
    return ResponseEntity.ok().contentType(framing.mediaType()).body(response -> {
      try (Connection connection = source.getConnection()) {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
          statement.setFetchSize(FETCH);
          JsonGenerator json = JSON.createGenerator(new BufferedOutputStream(response, CHUNK));
          // What stands between rows is our own.
          json.setRootValueSeparator(null);
          write(statement, json, encoder, framing);
          json.flush();
        }
        connection.commit();
      } catch (SQLException failure) {
        // Breaks the answer off, so that it does not look whole.
        throw new IOException(failure);
      }
    });
  }

  private static void write(PreparedStatement statement, JsonGenerator json, Encoder encoder, Framing framing)
      throws SQLException, IOException {
    json.writeRaw(framing.open());
    try (ResultSet rows = statement.executeQuery()) {
      for (boolean first = true; rows.next(); first = false) {
        if (!first) {
          json.writeRaw(framing.between());
        }
        encoder.write(rows, json);
      }
    }
    json.writeRaw(framing.close());
  }

  private static void author(ResultSet row, JsonGenerator json) throws SQLException, IOException {
    json.writeStartObject();
    json.writeNumberField("id", row.getLong(1));
    json.writeStringField("firstName", row.getString(2));
    json.writeStringField("lastName", row.getString(3));
    json.writeStringField("email", row.getString(4));
    LocalDate born = row.getObject(5, LocalDate.class);
    json.writeStringField("born", born == null ? null : born.toString());
    json.writeStringField("country", row.getString(6));
    json.writeBooleanField("active", row.getBoolean(7));
    json.writeNumberField("books", row.getInt(8));
    json.writeNumberField("royalties", row.getBigDecimal(9));
    json.writeStringField("motto", row.getString(10));
    json.writeStringField("joined", row.getObject(11, OffsetDateTime.class).toString());
    json.writeEndObject();
  }

  private static void event(ResultSet row, JsonGenerator json) throws SQLException, IOException {
    json.writeStartObject();
    json.writeNumberField("eventNo", row.getLong(1));
    json.writeStringField("paymentStatus", row.getString(2));
    json.writeStringField("statusChangeReason", row.getString(3));
    json.writeStringField("statusChanged", row.getObject(4, OffsetDateTime.class).toString());
    json.writeEndObject();
  }
}
