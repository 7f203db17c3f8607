package flashinfer

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
)

// MakeInputs returns the inputs of a workload, with the names and types of s.Inputs. s is the workload's Spec; paths of
// safetensors files are relative to root. The same workload and trial give the same numbers.
//
// Random tensors are standard normal, as in the benchmark, with two exceptions. Rows of k are scaled to length 1, as
// models do: rows of length sqrt(K) make the recurrence overflow within a few tokens. And random cu_seqlens cut the
// tokens at random into sequences of at least one token, if there are enough tokens.
func (p *Problem) MakeInputs(s gdn.Spec, w *Workload, root string, trial int) (map[string]*array.Array, error) {
	inputs := map[string]*array.Array{}
	files := map[string]*array.File{}
	for _, param := range s.Inputs() {
		name := p.names[param.Name]
		in := w.Inputs[name]
		if in.Type == Random {
			inputs[param.Name] = p.draw(param, s, w, trial)
			continue
		}
		at := "workload.inputs." + name
		path := in.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, filepath.FromSlash(path))
		}
		file := files[path]
		if file == nil {
			var err error
			if file, err = array.ReadSafetensors(path); err != nil {
				return nil, fmt.Errorf("%s.path: %w", at, err)
			}
			files[path] = file
		}
		a := file.Tensors[in.Key]
		if a == nil {
			return nil, fmt.Errorf("%s.tensor_key: %s has no tensor %q (it has %v)", at, path, in.Key, file.Names)
		}
		if want := ir.T(elementTypes[p.tensor(param.Name).DType], param.Type.Shape...); !a.IRType().Equal(want) {
			return nil, fmt.Errorf("%s: tensor %q of %s is %v, the definition and the axes make it %v", at, in.Key, path, a, want)
		}
		inputs[param.Name] = a.Convert(param.Type.DType)
	}
	if err := truth.CheckInputs(s, inputs); err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.UUID, err)
	}
	return inputs, nil
}

// draw makes a random tensor.
func (p *Problem) draw(x gdn.Param, s gdn.Spec, w *Workload, trial int) *array.Array {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%s", p.Name, w.UUID, x.Name)
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(trial)))
	if x.Name == "cu_seqlens" {
		return array.FromInt64s(ir.I64, x.Type.Shape, cuts(r, s.Tokens, s.Seqs))
	}
	v := make([]float32, x.Type.Size())
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	if x.Name == "k" {
		for row := range slices.Chunk(v, s.K) {
			sum := 0.0
			for _, e := range row {
				sum += float64(e) * float64(e)
			}
			for i := range row {
				row[i] /= float32(math.Sqrt(sum))
			}
		}
	}
	// Drawn in the definition's element type, which may be narrower than the spec's.
	return array.FromFloat32s(elementTypes[p.tensor(x.Name).DType], x.Type.Shape, v).Convert(x.Type.DType)
}

// cuts draws the bounds of sequences: none is empty if there are enough tokens.
func cuts(r *rand.Rand, tokens, seqs int) []int64 {
	least := 1
	if tokens < seqs {
		least = 0
	}
	free := tokens - least*seqs // tokens beyond the minimum of each sequence, cut anywhere
	cu := make([]int64, seqs+1)
	for i := 1; i < seqs; i++ {
		cu[i] = int64(r.IntN(free + 1))
	}
	cu[seqs] = int64(free)
	slices.Sort(cu)
	for i := range cu {
		cu[i] += int64(i * least)
	}
	return cu
}
