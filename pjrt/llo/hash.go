package llo

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"strings"
)

// canonicalHash is equal for schedules that do the same in the same bundles: virtual register numbers are dropped where a physical register
// is named, allocations are numbered by first use, region numbers become bundle addresses, and comments do not count.
func canonicalHash(bundles []bundle) string {
	h := sha256.New()
	w := bufio.NewWriter(h)
	c := canonical{allocations: map[string]int{}, regions: map[string]int64{}}
	for _, b := range bundles {
		for _, r := range b.regions {
			name := fmt.Sprintf("$region%d", r)
			if _, ok := c.regions[name]; !ok {
				c.regions[name] = b.addr
			}
		}
	}
	for _, b := range bundles {
		for _, in := range b.ins {
			if in.op == "compiler-scheduling-barrier" {
				continue
			}
			fmt.Fprintf(w, "%s=%s %s;", c.rewrite(in.dst), in.op, c.rewrite(in.args))
		}
		w.WriteByte('\n')
	}
	w.Flush()
	return fmt.Sprintf("%x", h.Sum(nil))
}

type canonical struct {
	allocations map[string]int
	regions     map[string]int64
}

// rewrite replaces the names in an operand list.
func (c *canonical) rewrite(text string) string {
	var out strings.Builder
	text = strings.Join(strings.Fields(text), " ")
	for text != "" {
		i := strings.IndexAny(text, "%#$")
		if i < 0 {
			i = len(text)
		}
		out.WriteString(text[:i])
		if text = text[i:]; text == "" {
			break
		}
		n := 1
		for n < len(text) && (text[n] == '_' || '0' <= text[n] && text[n] <= '9' || 'a' <= text[n] && text[n] <= 'z' || 'A' <= text[n] && text[n] <= 'Z') {
			n++
		}
		name := text[:n]
		text = text[n:]
		switch {
		case name[0] == '%':
			out.WriteByte('%')
			if i := strings.LastIndexByte(name, '_'); i >= 0 {
				out.WriteString(name[i+1:])
			}
		case name[0] == '#':
			id, ok := c.allocations[name]
			if !ok {
				id = len(c.allocations)
				c.allocations[name] = id
			}
			fmt.Fprintf(&out, "#%d", id)
		default:
			if addr, ok := c.regions[name]; ok {
				fmt.Fprintf(&out, "@%#x", addr)
			} else {
				out.WriteString(name)
			}
		}
	}
	return out.String()
}
