package house

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// box is a folder in the picture: its place, in units of a box, and what a program has become there, numbered along its way.
type box struct {
	x, y float64
	way  string
}

var boxes = map[string]box{
	"cmd":      {1, 0, "1  the text of a spec and a variant"},
	"autotune": {1, 1, "6  cycles, errors, verdict"},
	"tests":    {2, 0, ""},
	"gdn":      {0, 2, "2  a module of grids"},
	"codegen":  {1, 2, "3  kernels, then Mosaic"},
	"pjrt":     {2, 2, "4  libtpu's schedule; 5  its cycles"},
	"ir":       {0.5, 3, ""},
	"internal": {1.5, 3, ""},
}

// The order in which the way of a program visits the boxes.
var way = []string{"cmd", "gdn", "codegen", "pjrt", "autotune"}

const (
	pictureFile           = root + "/docs/rooms.svg"
	wideBox, highBox      = 270., 112.
	stepX, stepY, marginX = 310., 160., 20.
)

// The picture of the architecture is that of the imports.
func TestPicture(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	require.NoError(t, err)
	imports, parts := map[[2]string]bool{}, map[string]map[string]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from, below, _ := strings.Cut(strings.TrimPrefix(words[0], module), "/")
		if _, ok := boxes[from]; !ok {
			continue // examples
		}
		if parts[from] == nil {
			parts[from] = map[string]bool{}
		}
		if part, _, _ := strings.Cut(below, "/"); part != "" && from != "cmd" {
			parts[from][part] = true
		}
		for _, path := range words[1:] {
			to, ours := strings.CutPrefix(path, module)
			to, _, _ = strings.Cut(to, "/")
			if _, ok := boxes[to]; ours && ok && to != from {
				imports[[2]string{from, to}] = true
			}
		}
	}
	svg := picture(imports, parts)
	if *update {
		require.NoError(t, os.WriteFile(pictureFile, []byte(svg), 0o644))
	}
	had, err := os.ReadFile(filepath.FromSlash(pictureFile))
	require.NoError(t, err)
	require.Equal(t, string(had), svg, "imports between folders have changed: go test ./tests/house -run Picture -update, and look at it")
}

// picture draws folders as boxes with the packages in them, imports as grey arrows, and the way of a program in blue.
func picture(imports map[[2]string]bool, parts map[string]map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="930" height="620" viewBox="0 0 930 620" font-family="sans-serif" font-size="13">
<style>text{fill:#222}.b{fill:#fff;stroke:#888}.i{stroke:#bbb;fill:none}.w{stroke:#2563eb;stroke-width:2.5;fill:none}.n{font-weight:bold;font-size:15px}.p{fill:#666;font-size:11px}.s{fill:#2563eb}
@media(prefers-color-scheme:dark){text{fill:#ddd}.b{fill:#1b1b1f;stroke:#777}.i{stroke:#555}.p{fill:#999}.w{stroke:#7aa2ff}.s{fill:#7aa2ff}}</style>
<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0L8,4L0,8z" fill="#bbb"/></marker><marker id="v" markerWidth="5" markerHeight="5" refX="4" refY="2.5" orient="auto"><path d="M0,0L5,2.5L0,5z" fill="#2563eb"/></marker></defs>
`)
	byName := func(x, y [2]string) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }
	for _, e := range slices.SortedFunc(maps.Keys(imports), byName) {
		x0, y0, x1, y1 := between(boxes[e[0]], boxes[e[1]], 0)
		fmt.Fprintf(&b, "<path class=\"i\" marker-end=\"url(#a)\" d=\"M%.0f,%.0fL%.0f,%.0f\"><title>%s imports %s</title></path>\n", x0, y0, x1, y1, e[0], e[1])
	}
	for i := 1; i < len(way); i++ {
		x0, y0, x1, y1 := between(boxes[way[i-1]], boxes[way[i]], 14)
		fmt.Fprintf(&b, "<path class=\"w\" marker-end=\"url(#v)\" d=\"M%.0f,%.0fL%.0f,%.0f\"/>\n", x0, y0, x1, y1)
	}
	for _, name := range slices.Sorted(maps.Keys(boxes)) {
		at := boxes[name]
		x, y := marginX+at.x*stepX, 10+at.y*stepY
		fmt.Fprintf(&b, "<rect class=\"b\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"6\"/>\n<text class=\"n\" x=\"%.0f\" y=\"%.0f\">%s</text>\n", x, y, wideBox, highBox, x+10, y+20, name)
		for i, line := range wrapped(slices.Sorted(maps.Keys(parts[name])), 46) {
			fmt.Fprintf(&b, "<text class=\"p\" x=\"%.0f\" y=\"%.0f\">%s</text>\n", x+10, y+38+14*float64(i), line)
		}
		if at.way != "" {
			fmt.Fprintf(&b, "<text class=\"s\" x=\"%.0f\" y=\"%.0f\">%s</text>\n", x+10, y+highBox-8, at.way)
		}
	}
	return b.String() + "</svg>\n"
}

// between gives the ends of an arrow from a box to another, on the sides that face each other, moved aside.
func between(from, to box, aside float64) (x0, y0, x1, y1 float64) {
	cx := func(b box) float64 { return marginX + b.x*stepX + wideBox/2 + aside }
	top := func(b box) float64 { return 10 + b.y*stepY }
	switch {
	case from.y < to.y:
		return cx(from) + (to.x-from.x)*60, top(from) + highBox, cx(to) + (from.x-to.x)*60, top(to)
	case from.y > to.y:
		return cx(from) + (to.x-from.x)*60, top(from), cx(to) + (from.x-to.x)*60, top(to) + highBox
	case from.x < to.x:
		return cx(from) - aside + wideBox/2, top(from) + 30 + aside, cx(to) - aside - wideBox/2, top(to) + 30 + aside
	}
	return cx(from) - aside - wideBox/2, top(from) + 60 + aside, cx(to) - aside + wideBox/2, top(to) + 60 + aside
}

// wrapped sets words in lines of some characters.
func wrapped(words []string, most int) (lines []string) {
	for _, w := range words {
		if n := len(lines) - 1; n >= 0 && len(lines[n])+1+len(w) <= most {
			lines[n] += " " + w
		} else {
			lines = append(lines, w)
		}
	}
	return lines
}
