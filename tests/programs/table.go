package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// columns are the programs of a row: StableHLO for a CPU or GPU, Pallas in Python, and Mosaic for each target.
var columns = []string{"stablehlo", "pallas", "v5e", "v6e", "tpu7x"}

// table is the file of hashes. Each line is a record of fields separated by tabs.
type table struct {
	base     string   // the frozen state: commit, date
	whole    string   // the last whole run: commit, date
	reasons  []string // of changes, numbered from 1: date and text
	refusals map[string]string
	rows     []*row
}

// row is one program: a preset computed by a variant, given in full.
type row struct {
	preset, variant string
	names           []string // names of it when the table was frozen, with @TARGET if only there
	cells           [5]cell  // one for each column
}

// cell is the history of a hash, the oldest version first.
//
//	1f0c9a2b7d3e                 frozen, and still so
//	+1f0c9a2b7d3e                made after the table was frozen
//	1f0c9a2b7d3e>77ab01cd9e2f/3  changed, for reason 3
//	!5cc1a9                      refused, for the reason of that number
type cell []version

type version struct {
	hash   string
	reason int // 0 for the oldest
}

func (c cell) now() string {
	if len(c) == 0 {
		return ""
	}
	return strings.TrimPrefix(c[len(c)-1].hash, "+")
}

func (c cell) String() string {
	var b strings.Builder
	for i, v := range c {
		if i > 0 {
			b.WriteByte('>')
		}
		b.WriteString(v.hash)
		if v.reason > 0 {
			fmt.Fprintf(&b, "/%d", v.reason)
		}
	}
	return b.String()
}

func parseCell(text string) (cell, error) {
	var c cell
	for i, part := range strings.Split(text, ">") {
		hash, number, changed := strings.Cut(part, "/")
		v := version{hash: hash}
		if changed != (i > 0) || hash == "" {
			return nil, fmt.Errorf("%q: the first version of a hash has no reason, each later one names its own", text)
		}
		if changed {
			var err error
			if v.reason, err = strconv.Atoi(number); err != nil || v.reason < 1 {
				return nil, fmt.Errorf("%q: %q is not the number of a reason", text, number)
			}
		}
		c = append(c, v)
	}
	return c, nil
}

func refused(hash string) bool { return strings.HasPrefix(hash, "!") }

// set records a hash. A different hash is a new version with a reason; a refusal with a different text is not.
func (c cell) set(hash string, reason int, later bool) cell {
	switch {
	case len(c) == 0 && later:
		return cell{{hash: "+" + hash}}
	case len(c) == 0:
		return cell{{hash: hash}}
	case c.now() == hash:
		return c
	case refused(c.now()) && refused(hash):
		c = slices.Clone(c)
		mark := strings.TrimSuffix(c[len(c)-1].hash, c.now())
		c[len(c)-1].hash = mark + hash
		return c
	}
	return append(slices.Clip(c), version{hash, reason})
}

func parseTable(data []byte) (*table, error) {
	t := &table{refusals: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := t.record(lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	for _, r := range t.rows {
		for i, c := range r.cells {
			for _, v := range c {
				if v.reason > len(t.reasons) {
					return nil, fmt.Errorf("%s by %s, %s: there is no reason %d", r.preset, r.variant, columns[i], v.reason)
				}
			}
		}
	}
	return t, lines.Err()
}

func (t *table) record(line string) error {
	fields := strings.Split(line, "\t")
	want := map[string]int{"base": 3, "whole": 3, "reason": 4, "refusal": 3, "program": 4 + len(columns)}
	if n := want[fields[0]]; len(fields) != n && line != "" && line[0] != '#' {
		return fmt.Errorf("%q is no record of the table, or has not %d fields", fields[0], n)
	}
	switch fields[0] {
	case "base":
		t.base = fields[1] + "\t" + fields[2]
	case "whole":
		t.whole = fields[1] + "\t" + fields[2]
	case "reason":
		t.reasons = append(t.reasons, fields[2]+"\t"+fields[3])
		if fields[1] != strconv.Itoa(len(t.reasons)) {
			return fmt.Errorf("reason %s stands where %d is due", fields[1], len(t.reasons))
		}
	case "refusal":
		t.refusals[fields[1]] = fields[2]
	case "program":
		r := &row{preset: fields[1], variant: fields[2]}
		if fields[3] != "-" {
			r.names = strings.Split(fields[3], " ")
		}
		for i := range columns {
			c, err := parseCell(fields[4+i])
			if err != nil {
				return err
			}
			r.cells[i] = c
		}
		t.rows = append(t.rows, r)
	}
	return nil
}

const head = `# Programs of the named variants on the presets. Made by "go run ./tests/programs"; package programs says how to read and change it.
# program, preset, variant, names that stood for it at the base, then hashes: %s
`

// text renders the table, rows sorted by preset and variant.
func (t *table) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, strings.Join(columns, ", "))
	fmt.Fprintf(&b, "base\t%s\nwhole\t%s\n", t.base, t.whole)
	for i, r := range t.reasons {
		fmt.Fprintf(&b, "reason\t%d\t%s\n", i+1, r)
	}
	used := map[string]bool{}
	for _, r := range t.rows {
		for _, c := range r.cells {
			for _, v := range c {
				used[strings.TrimPrefix(v.hash, "+")] = true
			}
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(t.refusals)) {
		if used[hash] {
			fmt.Fprintf(&b, "refusal\t%s\t%s\n", hash, t.refusals[hash])
		}
	}
	slices.SortFunc(t.rows, func(x, y *row) int {
		return cmp.Or(cmp.Compare(x.preset, y.preset), cmp.Compare(x.variant, y.variant))
	})
	for _, r := range t.rows {
		fmt.Fprintf(&b, "program\t%s\t%s\t%s", r.preset, r.variant, cmp.Or(strings.Join(r.names, " "), "-"))
		for _, c := range r.cells {
			b.WriteString("\t" + c.String())
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// row returns the row of a program, and adds it if missing.
func (t *table) row(preset, variant string) *row {
	for _, r := range t.rows {
		if r.preset == preset && r.variant == variant {
			return r
		}
	}
	r := &row{preset: preset, variant: variant}
	t.rows = append(t.rows, r)
	return r
}

// frozen returns the digest of the table's frozen content, which must not change.
func (t *table) frozen() string {
	h := sha256.New()
	fmt.Fprintln(h, t.base)
	for _, r := range t.rows {
		var oldest []string
		for _, c := range r.cells {
			switch first := c[0].hash; {
			case strings.HasPrefix(first, "+"):
			case refused(first):
				oldest = append(oldest, "refused")
			default:
				oldest = append(oldest, first)
			}
		}
		if len(oldest) > 0 {
			fmt.Fprintln(h, r.preset, r.variant, r.names, oldest)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// hash returns the short hash of a text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:6])
}

// refusal returns the table's entry for an error.
func (t *table) refusal(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.ReplaceAll(text, "\t", " ")
	key := "!" + hash(text)[:6]
	t.refusals[key] = text
	return key
}
