// POST requests at a fixed rate, or as fast as they are answered: vegeta's attack, with a punctual pacer.
//
//	vegeta -url URL -size BYTES -rate PER_SECOND -duration TIME -workers N -connections N
//
// Without a rate each of the workers sends its next request when its last is answered. When all are answered, standard
// output has a line of CSV for each: its place in the schedule, when it was sent and how long its answer took, both in
// nanoseconds, the status, and what failed.
package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

func main() {
	url := flag.String("url", "", "where the requests go")
	size := flag.Int("size", 0, "bytes of a request's body")
	rate := flag.Int("rate", 0, "requests per second; 0: as fast as they are answered")
	duration := flag.Duration("duration", 0, "how long requests are sent")
	workers := flag.Uint64("workers", vegeta.DefaultWorkers, "requests without an answer at a time, without a rate")
	connections := flag.Int("connections", vegeta.DefaultMaxConnections, "most open connections")
	flag.Parse()

	var pacer vegeta.Pacer = vegeta.ConstantPacer{}
	mostWorkers := *workers
	if *rate > 0 {
		pacer = punctual{vegeta.ConstantPacer{Freq: *rate, Per: time.Second}}
		mostWorkers = vegeta.DefaultMaxWorkers   // no request waits for another's answer
		runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one for the pacer, which sleeps in the kernel
	}
	attacker := vegeta.NewAttacker(
		vegeta.Workers(*workers),
		vegeta.MaxWorkers(mostWorkers),
		vegeta.MaxConnections(*connections),
		vegeta.Timeout(0), // a late answer is a latency; and the timers cost
		vegeta.HTTP2(false),
		vegeta.MaxBody(0),
	)
	target := vegeta.Target{
		Method: http.MethodPost,
		URL:    *url,
		Header: http.Header{"Content-Type": {"application/octet-stream"}},
		Body:   bytes.Repeat([]byte("x"), *size),
	}

	var hits []hit
	for result := range attacker.Attack(vegeta.NewStaticTargeter(target), pacer, *duration, "") {
		hits = append(hits, hit{result.Seq, result.Timestamp.UnixNano(), int64(result.Latency), result.Code, result.Error})
	}
	out := csv.NewWriter(os.Stdout)
	for _, h := range hits {
		out.Write(h.columns())
	}
	out.Flush()
	if err := out.Error(); err != nil {
		log.Fatal(err)
	}
}

// hit is what is kept of a request: all the results of a minute, each with its headers, would not fit beside a service.
type hit struct {
	place         uint64
	sent, latency int64
	code          uint16
	failure       string
}

func (h hit) columns() []string {
	return []string{
		strconv.FormatUint(h.place, 10),
		strconv.FormatInt(h.sent, 10),
		strconv.FormatInt(h.latency, 10),
		strconv.FormatUint(uint64(h.code), 10),
		h.failure,
	}
}

// punctual sleeps in the kernel, which wakes it within some 50 µs. Go's own timers, when there is nothing else to do, end
// at a whole millisecond: at a low rate most of a latency was theirs.
type punctual struct{ vegeta.ConstantPacer }

func (p punctual) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	wait, stop := p.ConstantPacer.Pace(elapsed, hits)
	if !stop && wait > 0 {
		left := syscall.NsecToTimespec(int64(wait))
		for syscall.Nanosleep(&left, &left) == syscall.EINTR {
		}
	}
	return 0, stop
}
