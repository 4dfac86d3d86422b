// Prints the rows of a list as they arrive, and fails unless all of them did.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const maxTries, maxLine = 5, 16 << 20

// A failure is a problem document, an error record, or a cut.
type failure struct {
	Code, Detail string
	Retry        bool
	RetryAfter   int64 `json:"retry_after"`
}

func cut(reason any) *failure { return &failure{Code: "cut", Detail: fmt.Sprint(reason), Retry: true} }

type list struct {
	url    *url.URL
	handle func(row any) error // gets a map. Its numbers are json.Number, which keeps all digits
	rows   int                 // that were handled
	marks  bool                // a cut can be resumed after the last mark
}

func (l *list) set(parameter, value string) {
	query := l.url.Query()
	query.Set(parameter, value)
	l.url.RawQuery = query.Encode()
}

// read handles each row once. It returns nil if none is missing.
func (l *list) read() *failure {
	l.set("_end", "1")
	for tries := 1; ; tries++ {
		before := l.rows
		failed := l.request()
		if l.rows > before {
			tries = 1
		}
		if failed == nil || !failed.Retry || tries == maxTries || l.rows > 0 && !l.marks {
			return failed
		}
		pause := time.Duration(rand.Int63n(int64(100*time.Millisecond) << tries))
		time.Sleep(time.Duration(failed.RetryAfter)*time.Second + pause)
	}
}

func (l *list) request() *failure {
	within, cancel := context.WithCancel(context.Background())
	defer cancel()
	silence := time.AfterFunc(time.Minute, cancel) // until the headers, which wait for the first row
	request, _ := http.NewRequestWithContext(within, "GET", l.url.String(), nil)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return cut(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		failed := failure{Code: "cut", Detail: response.Status}
		switch response.StatusCode {
		case 408, 429, 502, 503, 504:
			failed.Retry = true
		}
		json.NewDecoder(io.LimitReader(response.Body, maxLine)).Decode(&failed)
		return &failed
	}
	tag, heartbeat := response.Header.Get("Rowstream-Tag"), response.Header.Get("Rowstream-Heartbeat")
	seconds, err := strconv.ParseFloat(heartbeat, 64)
	if err != nil || tag == "" || response.Header.Get("Rowstream-Wire") != "1" {
		return &failure{Code: "cut", Detail: "the response isn't framed, or has another version"}
	}
	l.marks = response.Header.Get("Rowstream-Resume") == "marks"
	watched := &body{response.Body, silence, time.Duration(3 * seconds * float64(time.Second))}
	return l.records(bufio.NewReaderSize(watched, maxLine), tag)
}

// A body ends its request if nothing arrives for too long.
type body struct {
	io.Reader
	silence *time.Timer
	limit   time.Duration
}

func (b *body) Read(part []byte) (int, error) {
	b.silence.Reset(b.limit)
	defer b.silence.Stop()
	return b.Reader.Read(part)
}

// records holds rows until a mark or the end confirms them. Without marks, it handles them at once.
func (l *list) records(lines *bufio.Reader, tag string) *failure {
	start, count, held := []byte(`{"$rowstream":"`+tag+`",`), 0, []any{}
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return cut(err) // even a clean end, because its record is missing
		}
		var record struct {
			Mark, End *struct {
				Rows int
				Next string
			}
			Error *failure
		}
		if bytes.HasPrefix(line, start) {
			err = json.Unmarshal(line, &record)
		} else if row, err := parse(line); err == nil { // otherwise a heartbeat, or a row that an error cut
			held, count = append(held, row), count+1
		}
		confirmed := record.Mark
		if record.End != nil {
			confirmed = record.End
		}
		if err != nil || confirmed != nil && confirmed.Rows != count {
			return cut("rows are missing")
		}
		if record.Error != nil {
			return record.Error
		}
		if confirmed == nil && l.marks {
			continue
		}
		for _, row := range held {
			if err := l.handle(row); err != nil {
				return &failure{Code: "cut", Detail: err.Error()}
			}
			l.rows++
		}
		held = held[:0]
		if record.End != nil {
			return nil
		}
		if confirmed != nil {
			l.set("_after", confirmed.Next)
		}
	}
}

func parse(line []byte) (any, error) {
	var row any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	err := decoder.Decode(&row)
	return row, err
}

func main() {
	address, err := url.Parse(os.Args[1])
	if err != nil {
		panic(err)
	}
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	all := list{url: address, handle: func(row any) error { return output.Encode(row) }}
	if failed := all.read(); failed != nil {
		fmt.Fprintf(os.Stderr, "rows are missing: %s (%s)\n", failed.Detail, failed.Code)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, all.rows, "rows, and none is missing")
}
