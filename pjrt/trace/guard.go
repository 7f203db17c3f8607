package trace

import (
	"context"
	"fmt"
	"io"
)

// Limits of a file, so that a small file can not use all memory. Tests set smaller ones.
var (
	mostSpace  int64 = 2 << 30   // bytes of an unpacked XSpace; protobuf allows no larger message
	mostJSON   int64 = 64 << 30  // bytes of unpacked JSON
	mostValue  int64 = 256 << 20 // bytes of one JSON value
	mostTimed        = 64 << 20  // events with a duration
	mostBlanks       = 64        // blanks kept in a row: the decoder rereads them with each piece of the file
)

// guard reads a file until its context ends or a limit is reached.
type guard struct {
	ctx  context.Context
	in   io.Reader
	read int64 // bytes
	mark int64 // position after the last value
	most int64
	json bool

	blanks          int
	text, backslash bool // inside a string; after a backslash
}

func (g *guard) Read(b []byte) (int, error) {
	for {
		if err := g.ctx.Err(); err != nil {
			return 0, context.Cause(g.ctx)
		}
		n, err := g.in.Read(b)
		g.read += int64(n)
		switch {
		case g.read > g.most:
			return 0, &damage{-1, fmt.Sprintf("it has more than %d bytes, unpacked", g.most)}
		case g.json && g.read-g.mark > mostValue:
			return 0, &damage{-1, fmt.Sprintf("a value of it has more than %d bytes", mostValue)}
		}
		if g.json {
			n = g.squeeze(b[:n])
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// squeeze drops blanks between values, after the first mostBlanks in a row.
func (g *guard) squeeze(b []byte) int {
	to := 0
	for _, c := range b {
		switch {
		case g.text:
			g.text = c != '"' || g.backslash
			g.backslash = c == '\\' && !g.backslash
		case c == '"':
			g.text, g.backslash, g.blanks = true, false, 0
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			if g.blanks++; g.blanks > mostBlanks {
				continue
			}
		default:
			g.blanks = 0
		}
		b[to] = c
		to++
	}
	return to
}
