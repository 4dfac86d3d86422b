// The rival in Go: net/http and pgx with its pool.
//
// What those who know it would choose:
//   - pgx's own interface, not database/sql: prepared statements are cached per connection, results come in binary;
//   - rows are read one by one with Scan into variables that are used again, no slice of structs;
//   - JSON is appended by hand to one buffer per request, which is written out whenever it holds 32 KiB:
//     encoding/json needs about twice the time for the same rows.
package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const chunk = 32 << 10

const (
	authorColumns = "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined from author "
	authorsSQL    = authorColumns + "order by id"
	authorSQL     = authorColumns + "where id = $1"
	eventsSQL     = "select event_no, paymt_status, status_chg_rsn, status_chg_date from payment_event order by event_no"
	filmSQL       = "select title from film where fid = $1"
)

// A row is scanned into its fields, and appended as JSON from there.
type row interface {
	fields() []any
	appendJSON(buffer []byte) []byte
}

type author struct {
	id                  int64
	firstName, lastName string
	email               *string
	born                pgtype.Date
	country             string
	active              bool
	books               int32
	royalties           pgtype.Numeric
	motto               *string
	joined              time.Time
}

func (a *author) fields() []any {
	return []any{&a.id, &a.firstName, &a.lastName, &a.email, &a.born, &a.country, &a.active, &a.books, &a.royalties,
		&a.motto, &a.joined}
}

func (a *author) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), a.id, 10)
	b = appendString(append(b, `,"firstName":`...), a.firstName)
	b = appendString(append(b, `,"lastName":`...), a.lastName)
	b = appendOptional(append(b, `,"email":`...), a.email)
	b = appendDate(append(b, `,"born":`...), a.born)
	b = appendString(append(b, `,"country":`...), a.country)
	b = strconv.AppendBool(append(b, `,"active":`...), a.active)
	b = strconv.AppendInt(append(b, `,"books":`...), int64(a.books), 10)
	royalties, _ := a.royalties.MarshalJSON()
	b = append(append(b, `,"royalties":`...), royalties...)
	b = appendOptional(append(b, `,"motto":`...), a.motto)
	b = appendTime(append(b, `,"joined":`...), a.joined)
	return append(b, '}')
}

type event struct {
	number  int64
	status  string
	reason  *string
	changed time.Time
}

func (e *event) fields() []any {
	return []any{&e.number, &e.status, &e.reason, &e.changed}
}

func (e *event) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"eventNo":`...), e.number, 10)
	b = appendString(append(b, `,"paymentStatus":`...), e.status)
	b = appendOptional(append(b, `,"statusChangeReason":`...), e.reason)
	b = appendTime(append(b, `,"statusChanged":`...), e.changed)
	return append(b, '}')
}

type film struct{ title string }

func (f *film) fields() []any { return []any{&f.title} }

func (f *film) appendJSON(b []byte) []byte {
	return append(appendString(append(b, `{"title":`...), f.title), '}')
}

func appendOptional(b []byte, text *string) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	return appendString(b, *text)
}

func appendDate(b []byte, date pgtype.Date) []byte {
	if !date.Valid {
		return append(b, "null"...)
	}
	return append(date.Time.AppendFormat(append(b, '"'), time.DateOnly), '"')
}

func appendTime(b []byte, at time.Time) []byte {
	return append(at.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

const hex = "0123456789abcdef"

func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, text[start:]...), '"')
}

// What stands around and between the rows of a list.
type framing struct{ mediaType, open, between, close string }

var (
	array    = framing{"application/json", "[", ",", "]"}
	envelope = framing{"application/json", `{"events":[`, ",", "]}"}
	lines    = framing{"application/x-ndjson", "", "\n", "\n"}
)

func list(pool *pgxpool.Pool, sql string, makeRow func() row, framing framing) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		rows, err := pool.Query(request.Context(), sql)
		if err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
		defer rows.Close()
		response.Header().Set("Content-Type", framing.mediaType)
		row := makeRow()
		fields := row.fields()
		buffer := append(make([]byte, 0, chunk+4096), framing.open...)
		for first := true; rows.Next(); first = false {
			if err := rows.Scan(fields...); err != nil {
				panic(http.ErrAbortHandler)
			}
			if !first {
				buffer = append(buffer, framing.between...)
			}
			buffer = row.appendJSON(buffer)
			if len(buffer) >= chunk {
				if _, err := response.Write(buffer); err != nil {
					return
				}
				buffer = buffer[:0]
			}
		}
		if rows.Err() != nil {
			// Breaks the answer off: it must not look whole.
			panic(http.ErrAbortHandler)
		}
		response.Write(append(buffer, framing.close...))
	}
}

func one(pool *pgxpool.Pool, sql string, makeRow func() row) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		id, err := strconv.ParseInt(request.PathValue("id"), 10, 64)
		if err != nil {
			http.Error(response, "the id is no number", http.StatusBadRequest)
			return
		}
		row := makeRow()
		err = pool.QueryRow(request.Context(), sql, id).Scan(row.fields()...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			http.NotFound(response, request)
		case err != nil:
			http.Error(response, err.Error(), http.StatusInternalServerError)
		default:
			response.Header().Set("Content-Type", "application/json")
			response.Write(row.appendJSON(make([]byte, 0, 512)))
		}
	}
}

func main() {
	// The rest of the address is in PGHOST, PGPORT and so on.
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		log.Fatal(err)
	}
	size, err := strconv.Atoi(os.Getenv("POOL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = int32(size)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	newAuthor := func() row { return new(author) }
	newEvent := func() row { return new(event) }
	newFilm := func() row { return new(film) }
	http.HandleFunc("GET /authors", list(pool, authorsSQL, newAuthor, array))
	http.HandleFunc("GET /authors/{id}", one(pool, authorSQL, newAuthor))
	http.HandleFunc("GET /events", list(pool, eventsSQL, newEvent, envelope))
	http.HandleFunc("GET /events.ndjson", list(pool, eventsSQL, newEvent, lines))
	http.HandleFunc("GET /films/{id}", one(pool, filmSQL, newFilm))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
