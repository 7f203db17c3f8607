package worker

import (
	"bytes"
	"testing"

	"github.com/gdngen/gdngen/autotune/journal"
)

// FuzzMessages reads any bytes as what a worker says.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"hello":{"protocol":1,"build":"x","node":"a","gates":[{"name":"legality"}]}}` + "\n" + `{"reply":{"id":12,"steps":[{"gate":"legality","record":{"id":12}}],"wall":{"x":1}}}` + "\n"))
	f.Add([]byte(`{"beat":{"id":12,"gate":"compile"}}` + "\n" + `{"refused":"x"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReader(bytes.NewReader(data))
		c := &conn{hello: &Hello{Gates: []GateRow{{Name: "legality"}, {Name: "cost"}}}}
		for {
			m, err := r.next()
			if err != nil {
				return
			}
			if m.Hello != nil {
				m.Hello.differs(c.hello, false)
			}
			if m.Reply != nil {
				c.check(m.Reply, &journal.Candidate{ID: m.Reply.ID})
			}
			for _, k := range m.Known {
				short(k)
			}
		}
	})
}
