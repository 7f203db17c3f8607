package journal

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzBodies reads lines "KIND BODY" whose checksums are made right, so that the state sees any body.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`header {"format":2,"spec":"tiny","targets":["v6e"],"lookahead":1,"strategy":"beam","gates":["legality"]}` + "\n" +
		`candidate {"id":1,"variant":"naive","fitted":"naive","verdict":"keep","gate":"cost","costs":[{"target":"v6e","cycles":5,"score":5,"per_token":1.5,"stages":[{"name":"a","cycles":3}]}],"errors":[{"class":"c","engine":"cpu","output":"o","error":"NaN","limit":0}]}` + "\n" + `session {"message":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []byte
		prev, seq := "", 0
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			kind, body, ok := bytes.Cut(line, []byte(" "))
			if !ok || !json.Valid(body) {
				continue
			}
			sealed, sum, err := encode(Record{Seq: seq, Prev: prev, Kind: Kind(kind), Body: body})
			if err != nil {
				continue
			}
			all = append(all, sealed...)
			prev, seq = sum, seq+1
		}
		s := NewState()
		if _, _, _, _, err := scan(&named{bytes.NewReader(all)}, func(r Record) error { r.Decision(); return s.Add(r) }); err != nil || s.Header == nil {
			return
		}
		for _, c := range s.Now().Candidates() {
			c.Worst()
			for i := range c.Costs {
				c.Costs[i].Took()
			}
		}
		Verify(s, func(string) error { return nil })
	})
}

type named struct{ *bytes.Reader }

func (named) Name() string { return "fuzz" }

// FuzzJournal reads any bytes as a journal: what Open leaves can be read and opened once more.
func FuzzJournal(f *testing.F) {
	f.Add([]byte("{}\n"))
	line, _, _ := encode(Record{Kind: KindHeader, Body: json.RawMessage(`{"format":2,"spec":"tiny","targets":["v6e"],"lookahead":1}`)})
	f.Add(line)
	f.Add(append(bytes.Clone(line), 0, 0, '\n'))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewState()
		good, torn, _, _, err := scan(&named{bytes.NewReader(data)}, s.Add)
		if err != nil {
			return
		}
		require.EqualValues(t, len(data), good+torn)
		if len(data) > 1<<10 {
			return
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), data, 0o644))
		j, _, err := Open(dir)
		require.NoError(t, err)
		require.NoError(t, j.Close())
	})
}
