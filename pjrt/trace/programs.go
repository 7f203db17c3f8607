package trace

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Names of instructions are unique only within a program, and several programs may have one name, for several shapes. So a program is
// identified by its host, its module's name, and its number.

// program identifies a compiled program of a trace.
type program struct{ host, module, id string }

// scopeTables map each program's instructions, by name, to their descriptions.
type scopeTables map[program]map[string]*Op

// find returns a program's description of an instruction; nil if the program is unknown or ambiguous.
func (s scopeTables) find(p program, instruction string) *Op {
	if table, ok := s[p]; ok {
		return table[instruction]
	}
	var found map[string]*Op
	for x, table := range s { // another host has the same program; without a number, only a unique name matches
		if x.module == p.module && (x.id == p.id || p.id == "") {
			if found != nil && x.id != p.id {
				return nil
			}
			found = table
		}
	}
	return found[instruction]
}

// ModulesLine is the line of a TPU profile with the calls of programs.
const ModulesLine = "XLA Modules"

// describe fills in ops that name only instruction and program, from the programs in the trace. Ops that name no program get the one
// that ran.
func (t *Trace) describe() {
	tables := scopeTables{}
	for _, p := range t.Planes {
		if s, ok := p.Stats[scopesStat].(scopeTables); ok {
			for x, table := range s {
				x.host = p.Host
				tables[x] = table
			}
			delete(p.Stats, scopesStat)
		}
	}
	for _, p := range t.Planes {
		p.programs()
		for _, l := range p.Lines {
			for _, e := range l.Events {
				if o := e.Op; o.HLO && o.Scope == "" {
					if x := tables.find(program{p.Host, o.Module, o.Program}, o.Name); x != nil {
						o.Scope, o.Source, o.Category = x.Scope, x.Source, cmp.Or(o.Category, x.Category)
					}
				}
			}
		}
	}
}

// programs assigns the instructions of a TPU to their programs: by number, or by the call in which they ran.
func (p *Plane) programs() {
	calls := p.Line(ModulesLine)
	if calls == nil {
		return
	}
	names := map[string]string{} // names of programs, by number
	for _, e := range calls.Events {
		module, id := call(e.Op.Name)
		names[id] = module
	}
	type told struct {
		op         *Op
		module, id string
	}
	made := map[told]*Op{}
	for _, l := range p.Lines {
		for i := range l.Events {
			e := &l.Events[i]
			if !e.Op.HLO || e.Op.Module != "" {
				continue
			}
			x := told{e.Op, names[e.Op.Program], e.Op.Program}
			if x.module == "" && x.id == "" {
				at := sort.Search(len(calls.Events), func(i int) bool { return calls.Events[i].Start > e.Start }) - 1
				if at < 0 || calls.Events[at].End() <= e.Start {
					continue
				}
				x.module, x.id = call(calls.Events[at].Op.Name)
			}
			if made[x] == nil {
				o := *e.Op
				o.Module, o.Program = x.module, x.id
				made[x] = &o
			}
			e.Op = made[x]
		}
	}
}

// call splits the name of a call, jit_step(77), into module and number.
func call(name string) (module, id string) {
	if at := strings.LastIndexByte(name, '('); at > 0 && strings.HasSuffix(name, ")") {
		return name[:at], name[at+1 : len(name)-1]
	}
	return name, ""
}

// titles name the programs of ops: by module, with the number if several share the module's name.
type titles map[program]string

func titlesOf(lines map[*Plane][]*Line) titles {
	ids := map[string][]string{} // per module
	for _, list := range lines {
		for _, l := range list {
			for _, e := range l.Events {
				if o := e.Op; !slices.Contains(ids[o.Module], o.Program) {
					ids[o.Module] = append(ids[o.Module], o.Program)
				}
			}
		}
	}
	t := titles{}
	for module, list := range ids {
		slices.SortFunc(list, compareNames)
		for i, id := range list {
			title := module
			switch {
			case module == "" && id != "":
				title = "program " + id
			case len(list) > 1:
				title = fmt.Sprintf("%s, %d of %d", module, i+1, len(list))
			}
			t[program{"", module, id}] = title
		}
	}
	return t
}

// of returns the title of an op's program; "" if the program is unknown.
func (t titles) of(o *Op) string { return t[program{"", o.Module, o.Program}] }
