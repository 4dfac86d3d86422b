package rivals;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SequenceWriter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.dao.EmptyResultDataAccessException;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.RowMapper;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/**
 * The rival as most services are written: Spring MVC, JDBC, a list of records that Jackson turns into JSON.
 *
 * <p>What those who know it would choose: JdbcTemplate with row mappers by column number, HikariCP, no JPA between.
 */
@SpringBootApplication
@RestController
public class Main {
  private static final String AUTHORS =
      "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined from author ";
  private static final String EVENTS =
      "select event_no, paymt_status, status_chg_rsn, status_chg_date from payment_event order by event_no";

  private final JdbcTemplate database;
  private final ObjectMapper json;

  Main(JdbcTemplate database, ObjectMapper json) {
    this.database = database;
    this.json = json;
  }

  public static void main(String[] arguments) {
    SpringApplication.run(Main.class, arguments);
  }

  record Author(long id, String firstName, String lastName, String email, LocalDate born, String country, boolean active,
      int books, BigDecimal royalties, String motto, OffsetDateTime joined) {}

  record Event(long eventNo, String paymentStatus, String statusChangeReason, OffsetDateTime statusChanged) {}

  record Events(List<Event> events) {}

  record Film(String title) {}

  @GetMapping("/authors")
  List<Author> authors() {
    return database.query(AUTHORS + "order by id", AUTHOR);
  }

  @GetMapping("/authors/{id}")
  Author author(@PathVariable long id) {
    return database.queryForObject(AUTHORS + "where id = ?", AUTHOR, id);
  }

  @GetMapping("/events")
  Events events() {
    return new Events(database.query(EVENTS, EVENT));
  }

  /** Spring MVC writes a list as an array, so the lines are joined by hand. */
  @GetMapping(path = "/events.ndjson", produces = MediaType.APPLICATION_NDJSON_VALUE)
  byte[] lines() throws IOException {
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    try (SequenceWriter writer = json.writer().withRootValueSeparator("\n").writeValues(lines)) {
      writer.writeAll(database.query(EVENTS, EVENT));
    }
    lines.write('\n');
    return lines.toByteArray();
  }

  @GetMapping("/films/{id}")
  Film film(@PathVariable long id) {
    return database.queryForObject("select title from film where fid = ?", (row, number) -> new Film(row.getString(1)), id);
  }

  @ExceptionHandler(EmptyResultDataAccessException.class)
  @ResponseStatus(HttpStatus.NOT_FOUND)
  void none() {}

  private static final RowMapper<Author> AUTHOR = Main::author;
  private static final RowMapper<Event> EVENT = Main::event;

  private static Author author(ResultSet row, int number) throws SQLException {
    return new Author(row.getLong(1), row.getString(2), row.getString(3), row.getString(4), row.getObject(5, LocalDate.class),
        row.getString(6), row.getBoolean(7), row.getInt(8), row.getBigDecimal(9), row.getString(10),
        row.getObject(11, OffsetDateTime.class));
  }

  private static Event event(ResultSet row, int number) throws SQLException {
    return new Event(row.getLong(1), row.getString(2), row.getString(3), row.getObject(4, OffsetDateTime.class));
  }
}
