package arith

import "github.com/gdngen/gdngen/ir/array"

// Matrix is a dense matrix, row by row.
type Matrix struct {
	Rows, Cols int
	X          []float32
}

// New returns a matrix of zeros.
func New(rows, cols int) Matrix { return Matrix{rows, cols, make([]float32, rows*cols)} }

func (m Matrix) rows(first, n int) Matrix { return Matrix{n, m.Cols, m.X[first*m.Cols:][:n*m.Cols]} }

func (m Matrix) clone() Matrix { return Matrix{m.Rows, m.Cols, append([]float32(nil), m.X...)} }

func (m Matrix) block(row, col, rows, cols int) Matrix {
	b := New(rows, cols)
	for i := range rows {
		copy(b.X[i*cols:][:cols], m.X[(row+i)*m.Cols+col:])
	}
	return b
}

func (m Matrix) turned() Matrix {
	t := New(m.Cols, m.Rows)
	for i := range m.Rows {
		for j := range m.Cols {
			t.X[j*m.Rows+i] = m.X[i*m.Cols+j]
		}
	}
	return t
}

// add adds x times a factor.
func (m Matrix) add(x Matrix, factor float32) {
	for i := range m.X {
		m.X[i] += factor * x.X[i]
	}
}

func (m Matrix) scaleRow(i int, by float32, c class) {
	row := m.X[i*m.Cols:][:m.Cols]
	for j := range row {
		row[j] = c.factor(row[j] * by)
	}
}

// times returns the product in float32, four terms at a time.
func (m Matrix) times(b Matrix) Matrix {
	p := New(m.Rows, b.Cols)
	n := b.Cols
	for i := range m.Rows {
		out, row := p.X[i*n:][:n], m.X[i*m.Cols:][:m.Cols]
		k := 0
		for ; k+4 <= len(row); k += 4 {
			x0, x1, x2, x3 := row[k], row[k+1], row[k+2], row[k+3]
			if x0 == 0 && x1 == 0 && x2 == 0 && x3 == 0 {
				continue
			}
			r0, r1, r2, r3 := b.X[k*n:][:n], b.X[(k+1)*n:][:n], b.X[(k+2)*n:][:n], b.X[(k+3)*n:][:n]
			for j := range out {
				out[j] += x0*r0[j] + x1*r1[j] + x2*r2[j] + x3*r3[j]
			}
		}
		for ; k < len(row); k++ {
			for j, y := range b.X[k*n:][:n] {
				out[j] += row[k] * y
			}
		}
	}
	return p
}

// split returns bf16 parts: the rounded matrix, the rounded remainder, and so on.
func (m Matrix) split(parts int) []Matrix {
	rest := m.clone()
	var l []Matrix
	for range parts {
		p := New(m.Rows, m.Cols)
		for i, x := range rest.X {
			p.X[i] = array.RoundBF16(x)
			rest.X[i] -= p.X[i]
		}
		l = append(l, p)
	}
	return l
}
