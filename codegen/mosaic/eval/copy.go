package eval

import (
	"fmt"
	"slices"

	"github.com/gdngen/gdngen/codegen/mlir"
)

// semaphore tracks the copies that signal it.
type semaphore struct {
	flight []transfer
	waited int // bytes of the copies in flight that were waited for
}

// transfer is a copy in flight.
type transfer struct {
	src, dst *ref
	bytes    int
	by       *mlir.Op
}

func (r *ref) bytes() int { return mlir.Type{Shape: r.shape}.Size() * r.elem.Bytes() }

// start puts a copy in flight: its target becomes unknown, and its source may not be written.
func (s *semaphore) start(src, dst *ref, by *mlir.Op) error {
	if src.elem != dst.elem || !slices.Equal(src.shape, dst.shape) {
		return fmt.Errorf("a copy of %s%v to %s%v", src.elem, src.shape, dst.elem, dst.shape)
	}
	if src.cols != 0 || dst.cols != 0 {
		return fmt.Errorf("a copy of a view of another width is not supported")
	}
	good := 0
	if err := src.rows(func(at, _, n int) error {
		k, err := src.mem.readable(at, n, known)
		good += k
		if err == nil && src.mem.fixed == "" {
			err = src.mem.hold(at, n)
		}
		return err
	}); err != nil {
		return err
	}
	if good == 0 {
		return fmt.Errorf("%s is copied where nothing has been written", src.mem.name)
	}
	s.flight = append(s.flight, transfer{src, dst, dst.bytes(), by})
	return dst.rows(func(at, _, n int) error { return dst.mem.await(at, n) })
}

// hold marks elements as read by a copy.
func (m *memory) hold(at, n int) error {
	m.track()
	for i := at; i < at+n; i++ {
		if m.state[i] == known {
			m.unknown++
		}
		if m.state[i] > 255-leaving {
			return fmt.Errorf("%s is the source of too many copies at once", m.name)
		}
		m.state[i] += leaving
	}
	return nil
}

// await marks elements as the target of a copy.
func (m *memory) await(at, n int) error {
	if err := m.write(at, n, known); err != nil {
		return err
	}
	m.track()
	for i := at; i < at+n; i++ {
		m.state[i] = arriving
	}
	m.unknown += n
	return nil
}

// wait records a wait for as many bytes as dst has. Copies land when all bytes in flight have been waited for; before that, a wait does
// not tell which copies have arrived.
func (s *semaphore) wait(dst *ref) error {
	total := 0
	for _, t := range s.flight {
		total += t.bytes
	}
	if s.waited += dst.bytes(); s.waited > total {
		return fmt.Errorf("the wait never ends: %d bytes are waited for, copies of %d are in flight on the semaphore", s.waited, total)
	}
	if s.waited < total {
		return nil
	}
	for _, t := range s.flight {
		if err := t.land(); err != nil {
			return err
		}
	}
	s.flight, s.waited = nil, 0
	return nil
}

// land writes the source into the target; unknown elements stay unknown.
func (t transfer) land() error {
	src, dst := t.src.mem, t.dst.mem
	if src.fixed == "" {
		if err := t.src.rows(func(at, _, n int) error {
			for i := at; i < at+n; i++ {
				if src.state[i] -= leaving; src.state[i] == known {
					src.unknown--
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	var from []int // address of each element
	if err := t.src.rows(func(at, _, n int) error {
		for i := range n {
			from = append(from, at+i)
		}
		return nil
	}); err != nil {
		return err
	}
	return t.dst.rows(func(at, i, n int) error {
		clear(dst.state[at : at+n])
		for j := range n {
			dst.copy(at+j, src, from[i+j], 1)
			if src.state == nil || src.state[from[i+j]]&known == known {
				dst.state[at+j] = known
				dst.unknown--
			}
		}
		return nil
	})
}

// landed errs if a copy is in flight.
func landed(scratch []*memory, when string) error {
	for _, m := range scratch {
		for _, s := range m.sems {
			if len(s.flight) > 0 {
				return fmt.Errorf("%s with %d copies in flight, the first of them started by %s: a wait is missing", when, len(s.flight), s.flight[0].by.Where())
			}
		}
	}
	return nil
}
