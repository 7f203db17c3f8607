package target

// fullTiles makes bf16 vectors in kernels use whole registers of 16 rows, the default from v6e on. Before v6e, libtpu 0.0.51
// otherwise keeps 8 rows in half a register, and a bitcast from bf16 to 32 bits goes through memory. Layouts outside of kernels do not change.
var fullTiles = map[string]string{"xla_tpu_control_large_2nd_minor_layout_for_x16": "true"}

// rows are the supported generations, oldest first.
var rows = []Target{
	{
		Name: "v4", Topology: "v4:2x2x1", Kind: "TPU v4",
		PCI:   "0x005e",
		Cores: 1, MXUs: 4, MXUSize: 128, VMEM: 16 << 20, HBM: 614e9, Clock: 1.05e9,
		MatmulBF16: 16, MatmulF32: 8, PushBF16: 4, PushF32: 2, BranchDelay: 1, Granule: 512,
		Register: Shape{8, 128}, Slots: Slots{Push: 4, Matmul: 4, XLU: 2, VALU: 2, Pop: 2, EUP: 1, Load: 1, Store: 1, SALU: 2},
		Flags:     fullTiles,
		Attention: Attention{Forward: 7280, Backward: 12475},
		Unknown:   []string{"Timing"},
	},
	{
		Name: "v5e", Topology: "v5e:2x2", Kind: "TPU v5 lite",
		OtherNames: []string{"v5lite", "v5litepod"}, PCI: "0x0063",
		Cores: 1, MXUs: 4, MXUSize: 128, VMEM: 128 << 20, HBM: 819e9, Clock: 1.5e9, RowGather: true,
		MatmulBF16: 16, MatmulF32: 8, PushBF16: 4, PushF32: 2, BranchDelay: 4, Granule: 32,
		Register: Shape{8, 128}, Slots: Slots{Push: 4, Matmul: 4, XLU: 3, VALU: 4, Pop: 2, EUP: 1, Load: 3, Store: 1, SALU: 2},
		Flags:     fullTiles,
		Attention: Attention{Forward: 5582, Backward: 11246},
		Timing: &Timing{
			VectorALU: 2, VectorMove: 1, VectorLoad: 1, Transcendental: 6,
			Matmul: 125, MatmulPop: 8, MatmulResults: 2,
			Permute: 114, LaneSum: 115, LanePath: 8,
			Transpose32: TransposeTiming{164, 8, 8}, Transpose16: TransposeTiming{228, 16, 16}, PairFirst: 60, LanePop: 8,
			TransposeAfterPermute32: 52, TransposeAfterPermute16: 52, SumAfterPermute: 41,
			TransposeAfterSum: 57, PermuteAfterSum: 24,
			PermuteAfterTranspose: 117, SumAfterTranspose: 120, PermuteAfterTranspose16: 117,
			Read: 1132, Write: 438, Local: 592, Overlay: 21744, JumboOverlay: 65232,
		},
	},
	{
		Name: "v5p", Topology: "v5p:2x2x1", Kind: "TPU v5",
		PCI:   "0x0062",
		Cores: 2, MXUs: 4, MXUSize: 128, VMEM: 64 << 20, HBM: 1382.5e9, Clock: 1.75e9, RowGather: true,
		MatmulBF16: 16, MatmulF32: 8, PushBF16: 4, PushF32: 2, BranchDelay: 4, Granule: 32,
		Register: Shape{8, 128}, Slots: Slots{Push: 4, Matmul: 4, XLU: 3, VALU: 4, Pop: 2, EUP: 1, Load: 3, Store: 1, SALU: 2},
		Flags:   fullTiles,
		Unknown: []string{"Timing", "Attention"},
	},
	{
		Name: "v6e", Topology: "v6e:2x2", Kind: "TPU v6 lite",
		OtherNames: []string{"trillium", "v6lite"}, PCI: "0x006f",
		Cores: 1, MXUs: 2, MXUSize: 256, VMEM: 128 << 20, HBM: 1640e9, Clock: 1.75e9, BF16VPU: true, RowGather: true,
		MatmulBF16: 8, MatmulF32: 4, PushBF16: 4, PushF32: 2, BranchDelay: 4, Granule: 32,
		Register: Shape{8, 128}, Slots: Slots{Push: 2, Matmul: 2, XLU: 2, VALU: 4, Pop: 2, EUP: 1, Load: 3, Store: 2, SALU: 2},
		Attention: Attention{Forward: 3503, Backward: 6119},
		Timing: &Timing{
			VectorALU: 2, VectorMove: 1, VectorLoad: 1, Transcendental: 13,
			Matmul: 192, MatmulPop: 2, MatmulResults: 4,
			Permute: 123, LaneSum: 137, LanePath: 4,
			Transpose32: TransposeTiming{124, 4, 4}, Transpose16: TransposeTiming{98, 4, 4}, LanePop: 4,
			TransposeAfterPermute32: 40, TransposeAfterPermute16: 34, SumAfterPermute: 35,
			TransposeAfterSum: 50, PermuteAfterSum: 21,
			PermuteAfterTranspose: 40, SumAfterTranspose: 43, PermuteAfterTranspose16: 8,
			Read: 546, Write: 454, Local: 592, Overlay: 21720, JumboOverlay: 65168,
		},
	},
	{
		Name: "tpu7x", Topology: "tpu7x:2x2x1", Kind: "TPU7x",
		OtherNames: []string{"ironwood", "tpu7", "v7x", "v7"}, PCI: "0x0076",
		Cores: 1, MXUs: 2, MXUSize: 256, VMEM: 64 << 20, HBM: 3690e9, Clock: 2.2e9, BF16VPU: true, RowGather: true,
		MatmulBF16: 8, MatmulF32: 4, PushBF16: 4, PushF32: 2, BranchDelay: 1, Granule: 32,
		Register: Shape{8, 128}, Slots: Slots{Push: 2, Matmul: 2, XLU: 2, VALU: 4, Pop: 2, EUP: 1, Load: 3, Store: 2, SALU: 2}, MostDelay: 6,
		Attention: Attention{Forward: 3505, Backward: 6067},
		Timing: &Timing{
			VectorALU: 2, VectorMove: 1, VectorLoad: 1, Transcendental: 10,
			Matmul: 211, MatmulResults: 4,
			Permute: 127, LaneSum: 141, LanePath: 4,
			Transpose32: TransposeTiming{128, 4, 4}, Transpose16: TransposeTiming{102, 4, 4}, LanePop: 4,
			TransposeAfterPermute32: 40, TransposeAfterPermute16: 34, SumAfterPermute: 35,
			TransposeAfterSum: 50, PermuteAfterSum: 21,
			PermuteAfterTranspose: 40, SumAfterTranspose: 43, PermuteAfterTranspose16: 8,
			Read: 692, Write: 592, Local: 594, Overlay: 21680, JumboOverlay: 65056,
		},
	},
}
