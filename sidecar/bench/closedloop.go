package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sort"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// closedLoop is clients that each wait for an answer, then for a moment, and then ask again. Each has a connection of its
// own to one of the data centres. The moment keeps clients whose data is all near from taking the whole machine, which the
// data centres share here: it stands for what a request costs at its data centre's own limit.
type closedLoop struct {
	addrs   []string
	clients int // spread over addrs
	length  time.Duration
	think   time.Duration
	gets    frames
	sets    frames
	reads   float64 // share of GETs
	popular popularity
	seed    uint64
}

// loopResult is what the clients have measured together.
type loopResult struct {
	ops      []int64 // by address
	failed   int64
	example  string
	elapsed  time.Duration
	get, put *hdrhistogram.Histogram // nanoseconds
}

func (r *loopResult) throughput() float64 {
	var sum int64
	for _, n := range r.ops {
		sum += n
	}
	return float64(sum) / max(r.elapsed.Seconds(), 1e-9)
}

// run lets the clients work. An error reply is counted; a connection that breaks fails the run.
func (l *closedLoop) run(ctx context.Context) (*loopResult, error) {
	total := &loopResult{ops: make([]int64, len(l.addrs)), get: newLatency(), put: newLatency()}
	start := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := make([]error, l.clients)
	for i := range l.clients {
		all.Go(func() {
			one := &loopResult{ops: make([]int64, len(l.addrs)), get: newLatency(), put: newLatency()}
			errs[i] = l.work(ctx, i, start.Add(l.length), one)
			mu.Lock()
			defer mu.Unlock()
			total.ops[i%len(l.addrs)] += one.ops[i%len(l.addrs)]
			total.failed += one.failed
			total.get.Merge(one.get)
			total.put.Merge(one.put)
			if one.failed > 0 {
				total.example = one.example
			}
		})
	}
	all.Wait()
	total.elapsed = time.Since(start)
	return total, errors.Join(append(errs, ctx.Err())...)
}

// work is one client.
func (l *closedLoop) work(ctx context.Context, number int, end time.Time, r *loopResult) error {
	where := number % len(l.addrs)
	conn, err := net.DialTimeout("tcp", l.addrs[where], 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(l.seed, uint64(number)))
	in := make([]byte, 64<<10)
	pause := time.NewTimer(time.Duration(random.Int64N(int64(l.think) + 1))) // not all at once
	defer pause.Stop()
	for {
		if l.think > 0 {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return nil
			}
		}
		begun := time.Now()
		if begun.After(end) || ctx.Err() != nil {
			return nil
		}
		f, latency := l.gets, r.get
		if random.Float64() >= l.reads {
			f, latency = l.sets, r.put
		}
		wrong, answer, err := ask(conn, f.requests[l.popular.draw(random)], f.reply, in)
		if err != nil {
			return fmt.Errorf("client of %s: %w", l.addrs[where], err)
		}
		if wrong {
			r.failed++
			r.example = answer
		} else {
			r.ops[where]++
			_ = latency.RecordValue(min(int64(time.Since(begun)), latency.HighestTrackableValue())) // it is within the range
		}
		pause.Reset(l.think)
	}
}

// ask sends one request and waits for its reply.
func ask(conn net.Conn, request []byte, want byte, in []byte) (wrong bool, answer string, err error) {
	if err := conn.SetDeadline(time.Now().Add(stall)); err != nil {
		return false, "", err
	}
	if _, err := conn.Write(request); err != nil {
		return false, "", err
	}
	for got := 0; ; {
		if got == len(in) {
			return false, "", errors.New("a reply does not fit the buffer")
		}
		n, err := conn.Read(in[got:])
		if err != nil {
			return false, "", err
		}
		got += n
		replies, bad, used, err := skipReplies(in[:got], 1, want)
		if err != nil {
			return false, "", err
		}
		if replies == 1 {
			return bad > 0, string(in[:min(used, 120)*bad]), nil
		}
	}
}

// popularity draws keys with a probability proportional to 1/rank^theta, as YCSB's zipfian distribution does.
type popularity []float64 // cumulative

func newPopularity(keys int, theta float64) popularity {
	p := make(popularity, keys)
	sum := 0.0
	for i := range p {
		sum += math.Pow(float64(i+1), -theta)
		p[i] = sum
	}
	return p
}

func (p popularity) draw(r *rand.Rand) int {
	return min(sort.SearchFloat64s(p, r.Float64()*p[len(p)-1]), len(p)-1)
}
