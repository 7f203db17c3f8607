package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Live is the content of a progress view of a run.
type Live struct {
	Dir             string
	View            journal.View
	Elapsed, Budget time.Duration
	CPU             float64  // seconds of processor time of the session
	Begun           int      // candidates before this session
	Flight          []string // candidates being judged
	Limit           string   // how many are judged at a time, and the limit
	Warning         string   // the last
	Doing           string   // activity before the first candidate
}

var ticks = []rune("▁▂▃▄▅▆▇█")

// Screen returns the view as text: running candidates, the best on each target, the last verdicts and reasons. No line
// is longer than width, and there are no more lines than height.
func (l *Live) Screen(width, height int) string {
	var b []string
	line := func(format string, args ...any) { b = append(b, fmt.Sprintf(format, args...)) }
	v := l.View
	budget := ""
	if l.Budget > 0 {
		budget = fmt.Sprintf(" of %v  %s", l.Budget.Round(time.Second), bar(float64(l.Elapsed)/float64(l.Budget), 20))
	}
	done := v.Len() - l.Begun
	line("gdngen search  %s  %v%s", l.Dir, l.Elapsed.Round(time.Second), budget)
	rate := 0.
	if l.Elapsed > 0 {
		rate = float64(done) / l.Elapsed.Minutes()
	}
	if v.Len() == 0 {
		line("%s", cmp.Or(l.Doing, "getting ready"))
		return strings.Join(b[:min(len(b), height)], "\n")
	}
	count := map[journal.Verdict]int{}
	for _, c := range v.Candidates() {
		count[c.Verdict]++
	}
	each := ""
	if l.CPU > 0 && done > 0 {
		each = fmt.Sprintf(", %.1f s of processor time each", l.CPU/float64(done))
	}
	line("%d candidates, %.1f a minute%s: %s", v.Len(), rate, each, verdicts(count))
	line("")
	for _, t := range v.Header().Targets {
		c := v.Champion(t)
		if c == nil {
			line("%-6s no candidate has a cost yet", t)
			continue
		}
		cost, seed := c.Cost(t), seedOf(v, t).Cost(t)
		line("%-6s %7.2f %s cycles per token and head  %5.1f x below the first  #%-4d %s", t, float64(cost.PerToken), cost.RulerName(), float64(seed.Score)/float64(cost.Score), c.ID, spark(v, t, 24))
		if base := BaselineOf(v, t); base != nil {
			line("       %s", base)
		}
		if len(cost.Stages) > 0 {
			line("       hot: %s; fullest slot %s %.0f %%", strings.Join(cost.Hot(), ", "), cost.Slot, 100*float64(cost.Fill))
		}
	}
	line("")
	if l.Limit != "" {
		line("judging %s", l.Limit)
	}
	for _, text := range l.Flight {
		line("  ...  %s", short(text))
	}
	if l.Warning != "" {
		line("  ! %s", l.Warning)
	}
	room := height - len(b) - 1
	all := v.Candidates()
	for i := len(all) - 1; i >= 0 && room > 0; i-- {
		c := all[i]
		what := strings.Join(c.Change, ",")
		if what == "" {
			what = short(c.Variant)
		} else {
			what = fmt.Sprintf("%s on #%d", what, c.Parent)
		}
		cost := ""
		if k := c.Cost(v.Header().Targets[0]); k != nil {
			cost = fmt.Sprintf("%.2f", float64(k.PerToken))
		}
		line("#%-4d %-9s %8s  %s  (%s)", c.ID, c.Verdict, cost, what, Clip(c.Reason, 100))
		room--
	}
	for i := range b {
		b[i] = cut(b[i], width)
	}
	return strings.Join(b[:min(len(b), height)], "\n")
}

// cut shortens a line to a number of characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	return string(r[:max(width-1, 0)]) + "…"
}

func bar(share float64, width int) string {
	n := int(math.Round(min(max(share, 0), 1) * float64(width)))
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

// spark draws the best so far on a target over the candidates, on a logarithmic scale.
func spark(v journal.View, target string, width int) string {
	line := v.Champions(target)
	if len(line) < 2 {
		return ""
	}
	first, last := math.Log(float64(line[0].Cost(target).Score)), math.Log(float64(line[len(line)-1].Cost(target).Score))
	var b strings.Builder
	for i := range width {
		upto := 1 + i*v.Len()/width
		best := first
		for _, c := range line {
			if c.ID <= upto {
				best = math.Log(float64(c.Cost(target).Score))
			}
		}
		if i == width-1 {
			best = last
		}
		h := 0.
		if first != last {
			h = (best - last) / (first - last)
		}
		b.WriteRune(ticks[int(math.Round(h*float64(len(ticks)-1)))])
	}
	return b.String()
}
