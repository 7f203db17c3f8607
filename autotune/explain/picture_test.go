package explain

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/pjrt/llo"
)

// Stages are in the order of where they lie, each with its share; small ones have no row. Units follow.
func TestPicture(t *testing.T) {
	f := &llo.Profile{Bundles: 40, Runs: 3, Slots: []string{"MATMUL", "VALU"}, Columns: []llo.Column{
		{Bundles: 10, Use: []float64{0, 1}, Files: map[string]int64{"products": 100, "": 7}},
		{Bundles: 10, Use: []float64{1, 1}, Files: map[string]int64{"products": 25, "solve": 75}},
		{Bundles: 20, Use: []float64{1, .5}, Files: map[string]int64{"solve": 50, "state": 49, "load": 1}},
	}}
	stage := func(place string) string {
		if place == "" {
			return "(no location)"
		}
		return place
	}
	lanes := stageLanes(f, stage)
	var names, notes []string
	for _, l := range lanes {
		names, notes = append(names, l.name), append(notes, l.note)
	}
	require.Equal(t, []string{"products", "solve", "state"}, names)
	require.Equal(t, []string{"31.2%", "43.8%", "24.5%"}, notes)
	require.Equal(t, []float64{1, .25, 0}, lanes[0].heights)
	require.Equal(t, "75%", unitLanes(f)[1].note)

	text := string(smallPicture("v6e", &llo.OpReport{Name: "a<b", Profile: f}, stage))
	d := xml.NewDecoder(strings.NewReader(text))
	paths := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	require.Equal(t, 5, paths)
	require.Contains(t, text, "a&lt;b on v6e: one pass of the loop, 40 bundles, run up to 3 times")
}
