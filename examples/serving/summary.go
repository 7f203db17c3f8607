package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// What happens to a request in a step.
const (
	markWaits   = '.' // for a slot, or for the budget of the step
	markPrefill = 'P'
)

// markDecode returns a letter if a step takes one token, else the number of right tokens of a window.
func markDecode(right, window int) byte {
	if window == 1 {
		return 'd'
	}
	return "0123456789abcdefg"[right]
}

// clock is the serving time: it stops while programs compile, which a server does before requests come.
type clock struct {
	start     time.Time
	compiling time.Duration
}

func (c *clock) now() time.Duration { return time.Since(c.start) - c.compiling }

// compiles stops the clock until the returned function is called.
func (c *clock) compiles() func() {
	begin := time.Now()
	return func() { c.compiling += time.Since(begin) }
}

// tally sums up all steps.
type tally struct {
	steps, promptTokens, decoded int
	prefill, decode              time.Duration
}

func (t *tally) add(r stepResult) {
	t.steps++
	t.promptTokens, t.decoded = t.promptTokens+r.promptTokens, t.decoded+r.decoded
	t.prefill, t.decode = t.prefill+r.prefill, t.decode+r.decode
}

// summarise draws the requests over the steps, and prints rates and latencies. All requests arrive at time 0, so the
// first token of a late one waits for the earlier ones.
func (s *server) summarise(t tally, out io.Writer) {
	done := slices.Clone(s.done)
	slices.SortFunc(done, func(a, b *request) int { return a.id - b.id })
	decode := "d decode"
	if s.config.window > 1 {
		decode = fmt.Sprintf("1 to %d tokens of a window were right", s.config.window)
	}
	fmt.Fprintf(out, "requests by step: %c waits, %c prefill, %s\n", markWaits, markPrefill, decode)
	hits, windows := 0, 0
	var first, each []time.Duration
	for _, q := range done {
		fmt.Fprintf(out, "%4d  %3d + %2d tokens  %s\n", q.id, q.prompt, q.tokens-q.prompt, q.marks)
		first, each = append(first, q.first), append(each, (q.last-q.first)/time.Duration(q.tokens-q.prompt))
	}
	for _, q := range done {
		windows += q.windows
		if q.shared > 0 {
			hits++
		}
	}
	rate := func(n int, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 1e-9) }
	fmt.Fprintf(out, "\n%d requests in %d steps and %.1f s, without the %.1f s to compile %d programs\n",
		len(done), t.steps, s.clock.now().Seconds(), s.clock.compiling.Seconds(), len(s.programs))
	fmt.Fprintf(out, "prefill %d tokens, %.0f a second; decode %d tokens, %.0f a second\n",
		t.promptTokens, rate(t.promptTokens, t.prefill), t.decoded, rate(t.decoded, t.decode))
	if hits > 0 {
		fmt.Fprintf(out, "%d requests started from the state after %d tokens that they share, %d tokens of prefill less\n", hits, s.cached.tokens, hits*s.cached.tokens)
	}
	if s.config.window > 1 {
		fmt.Fprintf(out, "%.2f of %d tokens of a window were right; the rest was rolled back by starting from an earlier checkpoint\n", float64(t.decoded)/float64(windows), s.config.window)
	}
	fmt.Fprintf(out, "first token after %s (median), %s (95 %%); each further one %s (median), %s (95 %%)\n",
		quantile(first, .5), quantile(first, .95), quantile(each, .5), quantile(each, .95))
}

// quantile returns the quantile of durations at a share from 0 to 1, to a tenth of a millisecond.
func quantile(d []time.Duration, share float64) time.Duration {
	var sorted []float64
	for _, x := range slices.Sorted(slices.Values(d)) {
		sorted = append(sorted, float64(x))
	}
	return time.Duration(stat.Quantile(share, stat.Empirical, sorted, nil)).Round(100 * time.Microsecond)
}
