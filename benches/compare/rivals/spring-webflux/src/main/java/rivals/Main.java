package rivals;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.r2dbc.spi.Readable;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The rival on WebFlux with R2DBC: a Flux of records, which the framework turns into JSON or lines.
 *
 * <p>What those who know it would choose: the database client with its own mapping, a fetch size, R2DBC's pool; and to leave
 * the framing to the framework, as its documentation shows. It sends a line of NDJSON as soon as it has one.
 */
@SpringBootApplication
@RestController
public class Main {
  private static final int FETCH = 1000;
  private static final int BATCH = 500;
  private static final String AUTHORS =
      "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined from author ";
  private static final String EVENTS =
      "select event_no, paymt_status, status_chg_rsn, status_chg_date from payment_event order by event_no";

  private final DatabaseClient database;
  private final ObjectMapper json;

  Main(DatabaseClient database, ObjectMapper json) {
    this.database = database;
    this.json = json;
  }

  public static void main(String[] arguments) {
    SpringApplication.run(Main.class, arguments);
  }

  record Author(Long id, String firstName, String lastName, String email, LocalDate born, String country, Boolean active,
      Integer books, BigDecimal royalties, String motto, OffsetDateTime joined) {}

  record Event(Long eventNo, String paymentStatus, String statusChangeReason, OffsetDateTime statusChanged) {}

  record Film(String title) {}

  @GetMapping(path = "/authors", produces = MediaType.APPLICATION_JSON_VALUE)
  Flux<Author> authors() {
    return database.sql(AUTHORS + "order by id").filter(statement -> statement.fetchSize(FETCH)).map(row -> author(row)).all();
  }

  @GetMapping("/authors/{id}")
  Mono<Author> author(@PathVariable long id) {
    return found(database.sql(AUTHORS + "where id = $1").bind(0, id).map(row -> author(row)).one());
  }

  @GetMapping(path = "/events.ndjson", produces = MediaType.APPLICATION_NDJSON_VALUE)
  Flux<Event> lines() {
    return database.sql(EVENTS).filter(statement -> statement.fetchSize(FETCH)).map(row -> event(row)).all();
  }

  /** The framework has no object around a stream, so its text is joined by hand. */
  @GetMapping(path = "/events", produces = MediaType.APPLICATION_JSON_VALUE)
  Flux<String> events() {
    Flux<String> batches = lines().map(this::text).buffer(BATCH).map(texts -> String.join(",", texts));
    Flux<String> joined = batches.index((number, text) -> number == 0 ? text : "," + text);
    return Flux.concat(Mono.just("{\"events\":["), joined, Mono.just("]}"));
  }

  @GetMapping("/films/{id}")
  Mono<Film> film(@PathVariable long id) {
    return found(database.sql("select title from film where fid = $1").bind(0, id)
        .map(row -> new Film(row.get(0, String.class))).one());
  }

  private static <T> Mono<T> found(Mono<T> row) {
    return row.switchIfEmpty(Mono.error(() -> new ResponseStatusException(HttpStatus.NOT_FOUND)));
  }

  private String text(Event event) {
    try {
      return json.writeValueAsString(event);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static Author author(Readable row) {
    return new Author(row.get(0, Long.class), row.get(1, String.class), row.get(2, String.class), row.get(3, String.class),
        row.get(4, LocalDate.class), row.get(5, String.class), row.get(6, Boolean.class), row.get(7, Integer.class),
        row.get(8, BigDecimal.class), row.get(9, String.class), row.get(10, OffsetDateTime.class));
  }

  private static Event event(Readable row) {
    return new Event(row.get(0, Long.class), row.get(1, String.class), row.get(2, String.class),
        row.get(3, OffsetDateTime.class));
  }
}
