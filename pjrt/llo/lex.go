package llo

import (
	"fmt"
	"strconv"
	"strings"
)

// A bundle is one VLIW instruction word of a schedule, as written in the dump.
type bundle struct {
	addr    int64
	ins     []instruction
	regions []int // regions that start at this bundle: what a branch names as its target
	exit    bool  // the bundle after the last: where regions that never start would

	endsRegion bool
}

// An instruction is one slot of a bundle: `%dst = op args`. Comments are removed from args; of what they say, the source
// location, the name of a called op and whether it loads the number of the core are kept.
type instruction struct {
	dst, op, args string
	loc           string // text within loc(...), empty where the compiler knows none
	call          string // name of the op that an inlined_call runs; of a division kDiv, kRem or kDivAndRem
	core          bool   // loads the number of the core that runs the program
}

// A syntaxError is a place in a dump that does not read as a schedule.
type syntaxError struct {
	line int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

// Place gives the parts of the error.
func (e *syntaxError) Place() (line int, what string) { return e.line, e.what }

// lexer cuts a final_bundles file into bundles:
//
//	file    = header { bundle }
//	bundle  = address [ label ] ":" { ">" } "{" [ instr { ";;" instr } ] "}" [ comment ]
//	instr   = dst "=" op args | op args
//
// Comments are /* ... */ and nest; braces nest; both may span lines.
type lexer struct {
	src string
	pos int
}

// parseBundles reads a whole final_bundles file.
func parseBundles(src string) ([]bundle, error) {
	lx := &lexer{src: src}
	var bundles []bundle
	last := int64(-1)
	for lx.nextAddress() {
		b, err := lx.bundle()
		if err != nil {
			return nil, err
		}
		if b.addr <= last {
			return nil, lx.errorf(lx.pos, "bundle address %#x after %#x", b.addr, last)
		}
		last = b.addr
		bundles = append(bundles, b)
	}
	if len(bundles) == 0 {
		return nil, lx.errorf(0, "no bundles: not a final_bundles dump, or an empty one")
	}
	return bundles, nil
}

func (lx *lexer) errorf(pos int, format string, args ...any) error {
	return &syntaxError{1 + strings.Count(lx.src[:min(pos, len(lx.src))], "\n"), fmt.Sprintf(format, args...)}
}

// nextAddress moves to the next line that begins with a bundle address. Other lines between bundles (the legend on top) carry nothing.
func (lx *lexer) nextAddress() bool {
	for lx.pos < len(lx.src) {
		line := lx.src[lx.pos:]
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line = line[:i]
		}
		text := strings.TrimLeft(line, " \t")
		if text != "" && text[0] == '0' {
			lx.pos += len(line) - len(text)
			return true
		}
		lx.pos += len(line) + 1
	}
	return false
}

func (lx *lexer) bundle() (bundle, error) {
	var b bundle
	start := lx.pos
	open := strings.IndexByte(lx.src[start:], '{')
	if open < 0 || strings.IndexByte(lx.src[start:start+open], '\n') >= 0 {
		return b, lx.errorf(start, "bundle without an opening brace")
	}
	head := lx.src[start : start+open]
	colon := strings.IndexByte(head, ':')
	if colon < 0 {
		return b, lx.errorf(start, "bundle without a colon after its address")
	}
	fields := strings.Fields(head[:colon])
	if len(fields) == 0 || len(fields) > 2 {
		return b, lx.errorf(start, "bundle head %q: want an address and at most one label", head)
	}
	addr, err := strconv.ParseInt(fields[0], 0, 64)
	if err != nil || addr < 0 {
		return b, lx.errorf(start, "bundle address %q", fields[0])
	}
	b.addr = addr
	lx.pos = start + open + 1
	if err := lx.body(&b); err != nil {
		return b, err
	}
	return b, lx.trailer(&b)
}

// body reads the instructions up to the closing brace.
func (lx *lexer) body(b *bundle) error {
	start := lx.pos
	var text strings.Builder
	var loc, call string
	var core bool
	depth, from := 0, lx.pos
	flush := func(end int) { text.WriteString(lx.src[from:end]) }
	finish := func() {
		if s := strings.TrimSpace(text.String()); s != "" {
			in := newInstruction(s, loc, call)
			in.core = core && in.op == "sld"
			b.ins = append(b.ins, in)
		}
		text.Reset()
		loc, call, core = "", "", false
	}
	for lx.pos < len(lx.src) {
		switch c := lx.src[lx.pos]; {
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}':
			flush(lx.pos)
			finish()
			lx.pos++
			return nil
		case c == ';' && strings.HasPrefix(lx.src[lx.pos:], ";;"):
			flush(lx.pos)
			finish()
			lx.pos += 2
			from = lx.pos
			continue
		case c == '/' && strings.HasPrefix(lx.src[lx.pos:], "/*"):
			flush(lx.pos)
			comment, err := lx.comment()
			if err != nil {
				return err
			}
			if l, ok := commentLoc(comment); ok && loc == "" {
				loc = l
			}
			if call == "" {
				call = commentCall(comment)
			}
			core = core || strings.HasSuffix(strings.TrimSpace(comment), "core id")
			from = lx.pos
			continue
		}
		lx.pos++
	}
	return lx.errorf(start, "bundle %#x is not closed: the file is cut short", b.addr)
}

// comment skips a comment and returns what is within it.
func (lx *lexer) comment() (string, error) {
	start := lx.pos
	depth := 0
	for lx.pos < len(lx.src) {
		rest := lx.src[lx.pos:]
		switch {
		case strings.HasPrefix(rest, "/*"):
			depth++
			lx.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			lx.pos += 2
			if depth == 0 {
				return lx.src[start+2 : lx.pos-2], nil
			}
		default:
			lx.pos++
		}
	}
	return "", lx.errorf(start, "comment is not closed: the file is cut short")
}

// trailer reads the comment after a bundle, which says where regions start.
func (lx *lexer) trailer(b *bundle) error {
	for {
		for lx.pos < len(lx.src) && (lx.src[lx.pos] == ' ' || lx.src[lx.pos] == '\t') {
			lx.pos++
		}
		if !strings.HasPrefix(lx.src[lx.pos:], "/*") {
			break
		}
		comment, err := lx.comment()
		if err != nil {
			return err
		}
		for note := range strings.SplitSeq(comment, "::") {
			words := strings.Fields(note)
			b.exit = b.exit || strings.HasPrefix(strings.TrimSpace(note), "exit bundle")
			b.endsRegion = b.endsRegion || len(words) == 3 && words[0] == "End" && words[1] == "region"
			if n := len(words); n >= 3 && strings.HasPrefix(words[0], "Start") && words[n-2] == "region" {
				r, err := strconv.Atoi(words[n-1])
				if err != nil {
					return lx.errorf(lx.pos, "region number %q", words[n-1])
				}
				b.regions = append(b.regions, r)
			}
		}
	}
	if lx.pos < len(lx.src) && lx.src[lx.pos] != '\n' && lx.src[lx.pos] != '\r' {
		return lx.errorf(lx.pos, "text after bundle %#x", b.addr)
	}
	return nil
}

// newInstruction splits `%dst = op args`.
func newInstruction(text, loc, call string) instruction {
	in := instruction{loc: loc}
	if dst, rest, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(strings.TrimSpace(dst), " \t[(") {
		in.dst, text = strings.TrimSpace(dst), strings.TrimSpace(rest)
	}
	i := strings.IndexAny(text, " \t\n")
	if i < 0 {
		i = len(text)
	}
	in.op, in.args = text[:i], strings.TrimSpace(text[i:])
	if in.op == "inlined_call" || strings.HasPrefix(in.op, "sdivrem.") {
		in.call = call
	}
	return in
}

// commentLoc finds the first `loc(...)` among the notes of a comment and returns its inside.
func commentLoc(comment string) (string, bool) {
	for note := range strings.SplitSeq(comment, " :: ") {
		note = strings.TrimSpace(note)
		if loc, ok := strings.CutPrefix(note, "loc("); ok {
			return strings.CutSuffix(loc, ")")
		}
	}
	return "", false
}

// commentCall returns the op that a comment `%name = kind(...)` or `<name>` tells of.
func commentCall(comment string) string {
	words := strings.Fields(comment)
	if len(words) == 0 {
		return ""
	}
	return strings.TrimPrefix(words[0], "%")
}
