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
	"regexp"
	"strconv"
	"strings"
	"time"
)

const maxTries, maxLine, maxPause = 5, 16 << 20, 3600

// A failure is a problem document, an error record, or a cut.
type failure struct {
	Code, Detail string
	Retry        bool
	RetryAfter   int64 `json:"retry_after"`
}

func cut(reason any) *failure { return &failure{Code: "cut", Detail: fmt.Sprint(reason), Retry: true} }

func fault(reason any) *failure { return &failure{Code: "cut", Detail: fmt.Sprint(reason)} }

type list struct {
	url    *url.URL
	handle func(row json.RawMessage) error // gets the JSON that the server sent
	rows   int                             // that were handled
	marks  bool                            // a cut can be resumed after the last mark
}

// set replaces a parameter, and keeps the others as they are.
func (l *list) set(parameter, value string) {
	var pairs []string
	for _, pair := range strings.Split(l.url.RawQuery, "&") {
		if pair != "" && !strings.HasPrefix(pair+"=", parameter+"=") {
			pairs = append(pairs, pair)
		}
	}
	l.url.RawQuery = strings.Join(append(pairs, parameter+"="+url.QueryEscape(value)), "&")
}

// read handles each row once. It returns nil if none is missing.
func (l *list) read() *failure {
	l.set("_end", "1")
	for tries := 1; ; tries++ {
		before := l.rows
		failed := l.request()
		if l.rows > before {
			tries = 0
		}
		if failed == nil || !failed.Retry || tries == maxTries || l.rows > 0 && !l.marks {
			return failed
		}
		if failed.RetryAfter > maxPause {
			failed.RetryAfter = maxPause
		}
		pause := time.Duration(rand.Int63n(int64(100*time.Millisecond) << tries))
		time.Sleep(time.Duration(failed.RetryAfter)*time.Second + pause)
	}
}

func (l *list) request() *failure {
	within, cancel := context.WithCancel(context.Background())
	defer cancel()
	silence := time.AfterFunc(time.Minute, cancel) // until the headers, which wait for the first row
	request, err := http.NewRequestWithContext(within, "GET", l.url.String(), nil)
	if err != nil {
		return fault(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return cut(err)
	}
	defer response.Body.Close()
	header := response.Header.Get
	if response.StatusCode != http.StatusOK {
		failed := fault(fmt.Sprint("HTTP ", response.StatusCode))
		switch response.StatusCode {
		case 408, 429, 502, 503, 504:
			failed.Retry = true
		}
		if strings.HasPrefix(header("Content-Type"), "application/problem+json") {
			json.NewDecoder(io.LimitReader(response.Body, maxLine)).Decode(failed)
		}
		return failed
	}
	tag := header("Rowstream-Tag")
	if tag == "" || header("Rowstream-Wire") != "1" {
		return fault("the response isn't framed, or has another version")
	}
	l.marks = header("Rowstream-Resume") == "marks"
	heartbeat, err := strconv.ParseFloat(header("Rowstream-Heartbeat"), 64)
	if err != nil || !(heartbeat > 0 && heartbeat < 3600) {
		heartbeat = 200 // a limit of ten minutes
	}
	watched := &body{response.Body, silence, time.Duration(3 * heartbeat * float64(time.Second))}
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
	start, count, held := []byte(`{"$rowstream":"`+tag+`",`), 0, []json.RawMessage{}
	for {
		line, err := lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return fault("a row is too long")
		}
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
		} else if json.Valid(line) { // otherwise a heartbeat, or a row that an error cut
			held, count = append(held, append(json.RawMessage{}, line...)), count+1
		}
		confirmed := record.End
		if confirmed == nil && record.Mark != nil && record.Mark.Next != "" {
			confirmed = record.Mark
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
				return fault(err)
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

func main() {
	all := list{handle: func(row json.RawMessage) error {
		_, err := os.Stdout.Write(row)
		return err
	}}
	usable := regexp.MustCompile(`(?i)^https?://[^/?#][!-~]*$`)
	if len(os.Args) == 2 && usable.MatchString(os.Args[1]) {
		all.url, _ = url.Parse(os.Args[1])
	}
	if all.url == nil {
		fmt.Fprintln(os.Stderr, "usage: rows URL")
		os.Exit(1)
	}
	if failed := all.read(); failed != nil {
		fmt.Fprintf(os.Stderr, "rows are missing: %s (%s)\n", failed.Detail, failed.Code)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, all.rows, "rows, and none is missing")
}
