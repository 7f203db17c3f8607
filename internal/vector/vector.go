// Package vector has the inner loops of the interpreter and of the float64 reference. On processors with AVX they compute several
// columns at once, each column in the order of the Go loops, without fused steps: the results are bit-identical.
package vector

// PanelRows and PanelColumns are the shape of a panel of products.
const (
	PanelRows    = 4
	PanelColumns = 16
)

// Panel is the product of 4 rows and 16 columns.
type Panel [PanelRows * PanelColumns]float32

// Multiply sets the panel to x^T y, [4, 16], summed over the contracted index in order, from 0: x is [k, 4], y is [k, 16].
func (p *Panel) Multiply(x, y []float32) {
	k := len(x) / PanelRows
	if k == 0 {
		*p = Panel{}
		return
	}
	multiply(p, x[:k*PanelRows], y[:k*PanelColumns])
}

// multiplyLoop is Multiply, two columns at a time. The conversions keep the compiler from fusing multiply and add.
func multiplyLoop(p *Panel, x, y []float32) {
	for j := 0; j < PanelColumns; j += 2 {
		var c00, c01, c10, c11, c20, c21, c30, c31 float32
		for k := range len(x) / PanelRows {
			a, b := x[k*PanelRows:][:PanelRows], y[k*PanelColumns+j:][:2]
			c00 += float32(a[0] * b[0])
			c01 += float32(a[0] * b[1])
			c10 += float32(a[1] * b[0])
			c11 += float32(a[1] * b[1])
			c20 += float32(a[2] * b[0])
			c21 += float32(a[2] * b[1])
			c30 += float32(a[3] * b[0])
			c31 += float32(a[3] * b[1])
		}
		for r, pair := range [PanelRows][2]float32{{c00, c01}, {c10, c11}, {c20, c21}, {c30, c31}} {
			copy(p[r*PanelColumns+j:], pair[:])
		}
	}
}

// DecayedSum multiplies the matrix m [len(k), len(sum)] by decay, and sets sum to k times it.
func DecayedSum(sum, m, k []float64, decay float64) {
	done := decayedSum(sum, m, k, decay)
	width := len(sum)
	clear(sum[done:])
	for i, ki := range k {
		row, sum := m[i*width:][done:width], sum[done:]
		for j := range row {
			row[j] *= decay
			sum[j] += float64(ki * row[j])
		}
	}
}

// UpdatedSum adds the product of the column k and the row u to the matrix m [len(k), len(u)], and sets sum to q times it.
func UpdatedSum(sum, m, k, q, u []float64) {
	done := updatedSum(sum, m, k, q, u)
	width := len(sum)
	clear(sum[done:])
	for i, ki := range k {
		row, qi, sum, u := m[i*width:][done:width], q[i], sum[done:], u[done:]
		for j := range row {
			row[j] += float64(ki * u[j])
			sum[j] += float64(qi * row[j])
		}
	}
}
