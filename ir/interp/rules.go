package interp

import "github.com/gdngen/gdngen/ir"

// rules says how each op runs, but for functions of a number, whose rows are in wide. Filled in
// init because the rules of ops with bodies refer back to it.
var rules [ir.NumOps]rule

func init() {
	rules = [ir.NumOps]rule{
		ir.OpConst:      pure(constant),
		ir.OpIota:       pure(iota),
		ir.OpNeg:        pure(unary),
		ir.OpAbs:        pure(unary),
		ir.OpNot:        pure(unary),
		ir.OpAdd:        pure(elements),
		ir.OpSub:        pure(elements),
		ir.OpMul:        pure(elements),
		ir.OpDiv:        pure(elements),
		ir.OpMax:        pure(elements),
		ir.OpMin:        pure(elements),
		ir.OpAnd:        pure(elements),
		ir.OpOr:         pure(elements),
		ir.OpXor:        pure(elements),
		ir.OpShl:        pure(elements),
		ir.OpShr:        pure(elements),
		ir.OpCompare:    pure(compare),
		ir.OpSelect:     pure(choose),
		ir.OpConvert:    pure(convert),
		ir.OpBitcast:    pure(bitcast),
		ir.OpPack:       pure(pack),
		ir.OpWords:      pure(words),
		ir.OpHalves:     pure(halves),
		ir.OpBroadcast:  pure(broadcast),
		ir.OpReshape:    pure(reshape),
		ir.OpTranspose:  pure(transpose),
		ir.OpSlice:      pure(slice),
		ir.OpConcat:     pure(concat),
		ir.OpPad:        pure(pad),
		ir.OpKeep:       pure(keep),
		ir.OpReduceSum:  pure(reduceSum),
		ir.OpReduceMax:  pure(reduceMax),
		ir.OpCumsum:     pure(cumsum),
		ir.OpTake:       pure(take),
		ir.OpGatherRows: pure(gatherRows),
		ir.OpDynSlice:   pure(dynSlice),
		ir.OpDynUpdate:  pure(dynUpdate),
		ir.OpDot:        pure(dot),

		ir.OpLoop:      (*frame).loop,
		ir.OpGrid:      (*frame).runGrid,
		ir.OpKernel:    (*frame).runKernel,
		ir.OpProgramID: (*frame).programID,
		ir.OpWhen:      (*frame).when,
		ir.OpLoad:      (*frame).load,
		ir.OpStore:     (*frame).store,
		ir.OpRefCast:   (*frame).refCast,
		ir.OpDMAStart:  (*frame).dmaStart,
		ir.OpDMAWait:   (*frame).dmaWait,
	}
	for op := range wide { // functions of a number: what they are is their row
		rules[op] = pure(unary)
	}
}

// pure is the rule of an op with one result that depends on the values of its operands alone.
func pure(f func(in *ir.Instr, args []*tensor) (*tensor, error)) rule {
	return func(fr *frame, s *step) error {
		var buf [4]*tensor
		args := buf[:0]
		for _, a := range s.args {
			args = append(args, fr.cells[a].t)
		}
		out, err := f(s.in, args)
		if err != nil {
			return err
		}
		fr.cells[s.results[0]] = cell{t: out}
		return nil
	}
}
