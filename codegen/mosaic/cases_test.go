package mosaic_test

import (
	"fmt"
	"strings"
)

// kernelCase is a small kernel on whole operands: one rule, or one shape of a rule. In the body %v0, %v1 .. are the inputs' values and
// %a0 .. their references, %o0 .. the outputs' references; %r0 .. are stored to the outputs.
type kernelCase struct {
	name    string
	in, out []string
	body    string
	dims    string   // default i:1
	scratch []string // "%name: type"
	bound   int      // integer inputs are in [0, bound); 0: any small integer
	tol     float64  // largest error relative to the largest value; 0: equal bits
}

func shapeOf(t string) string { return t[strings.Index(t, "["):] }

func window(t string) string {
	return fmt.Sprintf("%s@(%s)", shapeOf(t), strings.TrimSuffix(strings.Repeat("0,", strings.Count(t, ",")+1), ","))
}

func zeros(t string) string {
	return "[" + strings.TrimSuffix(strings.Repeat("0,", strings.Count(t, ",")+1), ",") + "]"
}

func each(ts []string, f func(i int, t string) string) string {
	var out []string
	for i, t := range ts {
		out = append(out, f(i, t))
	}
	return strings.Join(out, ", ")
}

// kernel prints the instruction; operands and results are the names to use.
func (c kernelCase) kernel(operands, results []string) string {
	dims := c.dims
	if dims == "" {
		dims = "i:1"
	}
	params := strings.Split(each(c.in, func(i int, t string) string { return fmt.Sprintf("%%a%d: vmem:%s", i, t) }), ", ")
	params = append(params, strings.Split(each(c.out, func(i int, t string) string { return fmt.Sprintf("%%o%d: vmem:%s", i, t) }), ", ")...)
	scratch := ""
	if len(c.scratch) > 0 {
		scratch = ", scratch=(" + each(c.scratch, func(_ int, s string) string { _, t, _ := strings.Cut(s, ": "); return t }) + ")"
		params = append(params, c.scratch...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %s = kernel %s {name=%s, dims=(%s), in=(%s), out=(%s)%s} (%s) {\n", strings.Join(results, ", "), strings.Join(operands, ", "), c.name, dims,
		each(c.in, func(_ int, t string) string { return window(t) }), each(c.out, func(_ int, t string) string { return window(t) + ":" + t }), scratch, strings.Join(params, ", "))
	for i, t := range c.in {
		if strings.Contains(c.body, fmt.Sprintf("%%v%d", i)) {
			fmt.Fprintf(&b, "    %%v%d = load %%a%d {starts=%s} : %s @read\n", i, i, zeros(t), t)
		}
	}
	b.WriteString(c.body + "\n")
	for i, t := range c.out {
		if strings.Contains(c.body, fmt.Sprintf("%%r%d =", i)) {
			fmt.Fprintf(&b, "    store %%r%d, %%o%d {starts=%s} @write\n", i, i, zeros(t))
		}
	}
	fmt.Fprintf(&b, "    yield\n  } : %s\n", strings.Join(c.out, ", "))
	return b.String()
}

func ty(dtype string, shape ...int) string {
	return dtype + strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}

const (
	f32Tol  = 1e-6 // a few units in the last place of float32
	bf16Tol = 8e-3 // one unit in the last place of bf16: libraries differ in float32, which moves a tie
	dotTol  = 2e-6 // float32 sums in another order
)

// cases covers every rule on every element type and the shapes that the lowering uses.
func cases() []kernelCase {
	var cs []kernelCase
	add := func(name string, in, out []string, format string, args ...any) *kernelCase {
		cs = append(cs, kernelCase{name: name, in: in, out: out, body: fmt.Sprintf(format, args...)})
		return &cs[len(cs)-1]
	}
	on := func(ts ...string) []string { return ts }
	x := func(d string) string { return ty(d, 16, 128) }
	const mask = "bool[16,128]"

	for _, d := range []string{"f32", "bf16"} {
		for _, op := range strings.Fields("neg abs exp exp2 log log2 log1p sqrt rsqrt tanh logistic") {
			body := "%r0 = " + op + " %v0 : " + x(d)
			if strings.HasPrefix(op, "log") && op != "logistic" || strings.HasSuffix(op, "sqrt") {
				body = "%p = abs %v0 : " + x(d) + "\n%r0 = " + op + " %p : " + x(d)
			}
			c := add(op+"_"+d, on(x(d)), on(x(d)), "%s", body)
			if op != "neg" && op != "abs" {
				c.tol = map[string]float64{"f32": f32Tol, "bf16": bf16Tol}[d]
			}
		}
	}
	for _, d := range []string{"f32", "bf16", "i32", "u32"} {
		for _, op := range strings.Fields("add sub mul div max min") {
			if op == "div" { // by what is not 0
				if float := d == "f32" || d == "bf16"; float {
					add(op+"_"+d, on(x(d), x(d)), on(x(d)), "%%h = const {value=0.5} : %[1]s\n%%b = abs %%v1 : %[1]s\n%%p = max %%b, %%h : %[1]s\n%%r0 = div %%v0, %%p : %[1]s", x(d))
				} else {
					add(op+"_"+d, on(x(d), x(d)), on(x(d)), "%%h = const {value=1} : %[1]s\n%%p = or %%v1, %%h : %[1]s\n%%r0 = div %%v0, %%p : %[1]s", x(d))
				}
				continue
			}
			add(op+"_"+d, on(x(d), x(d)), on(x(d)), "%s", "%r0 = "+op+" %v0, %v1 : "+x(d))
		}
		for _, rel := range strings.Fields("eq ne lt le gt ge") {
			add("compare_"+rel+"_"+d, on(x(d), x(d)), on(x(d)), "%%c = compare %%v0, %%v1 {cmp=%s} : %s\n%%r0 = select %%c, %%v0, %%v1 : %s", rel, mask, x(d))
		}
		add("bool_to_"+d, on(x("f32"), x("f32")), on(x(d)), "%%c = compare %%v0, %%v1 {cmp=lt} : %s\n%%r0 = convert %%c : %s", mask, x(d))
		add("bool_of_"+d, on(x(d), x("f32")), on(x("f32")), "%%c = convert %%v0 : %s\n%%z = const {value=3} : %s\n%%r0 = select %%c, %%v1, %%z : %s", mask, x("f32"), x("f32"))
	}
	for _, d := range []string{"i32", "u32"} {
		for _, op := range strings.Fields("neg abs not") {
			add(op+"_"+d, on(x(d)), on(x(d)), "%s", "%r0 = "+op+" %v0 : "+x(d))
		}
		for _, op := range strings.Fields("and or xor shl shr") {
			add(op+"_"+d, on(x(d), x(d)), on(x(d)), "%s", "%r0 = "+op+" %v0, %v1 : "+x(d))
		}
		add("shift_const_"+d, on(x(d)), on(x(d)), "%%n = const {value=5} : %[1]s\n%%s = shl %%v0, %%n : %[1]s\n%%m = const {value=40} : %[1]s\n%%t = shr %%v0, %%m : %[1]s\n%%r0 = or %%s, %%t : %[1]s", x(d))
	}
	add("bools", on(x("f32"), x("f32")), on(x("f32")), `%%z = const {value=0} : %[1]s
%%c = compare %%v0, %%z {cmp=gt} : %[2]s
%%d = compare %%v1, %%z {cmp=gt} : %[2]s
%%e = and %%c, %%d : %[2]s
%%f = or %%c, %%d : %[2]s
%%g = xor %%e, %%f : %[2]s
%%h = not %%g : %[2]s
%%i = compare %%h, %%c {cmp=lt} : %[2]s
%%j = select %%i, %%c, %%d : %[2]s
%%k = slice %%j {starts=[0,0], limits=[1,128]} : bool[1,128]
%%l = broadcast %%k {dims=[0,1]} : %[2]s
%%m = concat %%k, %%k {axis=0} : bool[2,128]
%%n = pad %%m {value=1, starts=[6,0], limits=[8,0]} : %[2]s
%%o = xor %%n, %%l : %[2]s
%%p = compare %%o, %%j {cmp=ne} : %[2]s
%%r0 = convert %%p : %[1]s`, x("f32"), mask)
	for _, p := range strings.Fields("f32>bf16 bf16>f32 f32>i32 f32>u32 i32>f32 u32>f32 i32>bf16 u32>bf16 bf16>i32 i32>u32 u32>i32") {
		from, to, _ := strings.Cut(p, ">")
		body := "%r0 = convert %v0 : " + x(to)
		if p == "f32>u32" {
			body = "%p = abs %v0 : " + x(from) + "\n%r0 = convert %p : " + x(to)
		}
		add("convert_"+from+"_"+to, on(x(from)), on(x(to)), "%s", body)
	}
	add("bitcast", on(x("f32"), x("i32")), on(x("i32"), x("f32")), "%%r0 = bitcast %%v0 : %s\n%%b = abs %%v1 : %s\n%%r1 = bitcast %%b : %s", x("i32"), x("i32"), x("f32"))
	add("bitcast_words", on(x("f32")), on(x("u32")), "%%r0 = bitcast %%v0 : %s", x("u32"))
	add("bitcast_half", on(x("bf16")), on(x("bf16")), "%%w = bitcast %%v0 : %s\n%%r0 = bitcast %%w : %s", x("u16"), x("bf16"))
	add("pack", on(x("f32"), x("f32")), on(x("u32")), "%%r0 = pack %%v0, %%v1 : %s", x("u32"))
	for _, rows := range []int{16, 8} {
		add(fmt.Sprint("words_", rows), on(ty("bf16", rows, 128)), on(ty("u32", rows/2, 128)), "%%r0 = words %%v0 : %s", ty("u32", rows/2, 128))
		add(fmt.Sprint("halves_", rows), on(ty("u32", rows/2, 128)), on(ty("bf16", rows, 128)), "%%r0 = halves %%v0 : %s", ty("bf16", rows, 128))
	}
	add("iota", on(x("f32")), on(x("f32")), `%%i = iota {axis=0} : %[2]s
%%j = iota {axis=1} : %[1]s
%%k = convert %%i : %[1]s
%%s = add %%k, %%j : %[1]s
%%l = iota {axis=0} : f32[128]
%%m = broadcast %%l {dims=[1]} : %[1]s
%%t = mul %%s, %%m : %[1]s
%%r0 = add %%t, %%v0 : %[1]s`, x("f32"), x("i32"))
	for _, d := range []string{"f32", "bf16", "i32"} {
		add("broadcast_row_"+d, on(ty(d, 1, 128)), on(x(d)), "%%r0 = broadcast %%v0 {dims=[0,1]} : %s", x(d))
		add("broadcast_column_"+d, on(x(d)), on(x(d)), "%%c = slice %%v0 {starts=[0,3], limits=[16,4]} : %s\n%%r0 = broadcast %%c {dims=[0,1]} : %s", ty(d, 16, 1), x(d))
		add("broadcast_element_"+d, on(x(d)), on(x(d)), "%%c = slice %%v0 {starts=[2,3], limits=[3,4]} : %s\n%%r0 = broadcast %%c {dims=[0,1]} : %s", ty(d, 1, 1), x(d))
		add("broadcast_scalar_"+d, on(x(d)), on(x(d)), "%%c = const {value=3} : %s[]\n%%d = broadcast %%c {dims=[]} : %s\n%%r0 = add %%v0, %%d : %s", d, x(d), x(d))
	}
	for _, op := range []string{"reduce_sum", "reduce_max"} {
		for _, d := range []string{"f32", "bf16", "i32"} {
			tol := map[string]float64{"f32": f32Tol, "bf16": bf16Tol}[d]
			if op == "reduce_max" {
				tol = 0
			}
			add(op+"_row_"+d, on(x(d)), on(x(d)), "%%s = %s %%v0 {dims=[1]} : %s\n%%t = reshape %%s : %s\n%%r0 = broadcast %%t {dims=[0,1]} : %s", op, ty(d, 16), ty(d, 16, 1), x(d)).tol = tol
			add(op+"_column_"+d, on(x(d)), on(ty(d, 1, 128)), "%%s = %s %%v0 {dims=[0]} : %s\n%%r0 = reshape %%s : %s", op, ty(d, 128), ty(d, 1, 128)).tol = tol
			if d != "i32" {
				add(op+"_vector_"+d, on(x(d)), on(x(d)), "%%s = %s %%v0 {dims=[1]} : %s\n%%r0 = broadcast %%s {dims=[0]} : %s", op, ty(d, 16), x(d)).tol = tol
				add(op+"_all_"+d, on(x(d)), on(x(d)), "%%s = %s %%v0 {dims=[0,1]} : %s[]\n%%r0 = broadcast %%s {dims=[]} : %s", op, d, x(d)).tol = 20 * tol
			}
		}
	}
	for _, d := range []string{"f32", "bf16", "i32"} {
		for _, s := range [][2]int{{128, 128}, {16, 128}, {8, 128}, {64, 64}, {128, 64}, {16, 16}, {1, 128}, {128, 1}, {48, 96}} {
			add(fmt.Sprintf("transpose_%s_%d_%d", d, s[0], s[1]), on(ty(d, s[0], s[1])), on(ty(d, s[1], s[0])), "%%r0 = transpose %%v0 {dims=[1,0]} : %s", ty(d, s[1], s[0]))
		}
	}
	add("reshape_column_row", on(x("f32")), on("f32[1,16]"), "%%c = slice %%v0 {starts=[0,3], limits=[16,4]} : f32[16,1]\n%%r0 = reshape %%c : f32[1,16]")
	add("reshape_vector", on("f32[1,128]"), on("f32[1,128]"), "%%c = reshape %%v0 : f32[128]\n%%d = add %%c, %%c : f32[128]\n%%r0 = reshape %%d : f32[1,128]")
	add("reshape_scalar", on(x("f32")), on(x("f32")), "%%c = slice %%v0 {starts=[1,2], limits=[2,3]} : f32[1,1]\n%%d = reshape %%c : f32[]\n%%e = exp %%d : f32[]\n%%g = mul %%e, %%d : f32[]\n%%r0 = broadcast %%g {dims=[]} : %s", x("f32")).tol = f32Tol
	blocks := [][4]int{{0, 0, 8, 128}, {8, 0, 16, 128}, {3, 0, 11, 128}, {0, 64, 16, 128}, {0, 16, 16, 48}, {5, 7, 9, 30}, {4, 0, 8, 128}, {0, 0, 1, 128}, {15, 0, 16, 128}}
	for _, d := range []string{"f32", "bf16", "u32"} {
		for _, b := range blocks {
			part, id := ty(d, b[2]-b[0], b[3]-b[1]), fmt.Sprintf("%s_%d_%d_%d_%d", d, b[0], b[1], b[2], b[3])
			add("slice_"+id, on(x(d)), on(part), "%%r0 = slice %%v0 {starts=[%d,%d], limits=[%d,%d]} : %s", b[0], b[1], b[2], b[3], part)
			add("load_"+id, on(x(d)), on(part), "%%r0 = load %%a0 {starts=[%d,%d]} : %s", b[0], b[1], part)
			add("store_"+id, on(part), on(x(d)), "%%z = const {value=1} : %s\nstore %%z, %%o0 {starts=[0,0]}\nstore %%v0, %%o0 {starts=[%d,%d]}", x(d), b[0], b[1])
		}
		for k, s := range [][5]int{{16, 128, 16, 128, 0}, {16, 128, 16, 128, 1}, {8, 128, 8, 128, 0}, {3, 128, 5, 128, 0}, {16, 64, 16, 64, 1}, {16, 16, 16, 48, 1}, {16, 16, 16, 112, 1}, {1, 128, 1, 128, 0}, {16, 64, 16, 64, 0}} {
			o := []int{s[0], s[1]}
			o[s[4]] += s[2+s[4]]
			add(fmt.Sprintf("concat_%s_%d", d, k), on(ty(d, s[0], s[1]), ty(d, s[2], s[3])), on(ty(d, o...)), "%%r0 = concat %%v0, %%v1 {axis=%d} : %s", s[4], ty(d, o...))
		}
		add("pad_"+d, on(x(d)), on(ty(d, 24, 256)), "%%r0 = pad %%v0 {value=2, starts=[0,64], limits=[8,64]} : %s", ty(d, 24, 256))
		add("pad_corner_"+d, on(ty(d, 8, 64)), on(x(d)), "%%r0 = pad %%v0 {value=0, starts=[8,0], limits=[0,64]} : %s", x(d))
	}
	for _, d := range []string{"f32", "i32", "bf16"} {
		add("take_lanes_"+d, on(x(d), x("i32")), on(x(d)), "%%r0 = take %%v0, %%v1 {axis=1} : %s", x(d)).bound = 128
		add("take_lanes_8_"+d, on(ty(d, 8, 128), "i32[8,128]"), on(ty(d, 8, 128)), "%%r0 = take %%v0, %%v1 {axis=1} : %s", ty(d, 8, 128)).bound = 128
	}
	add("take_lanes_64", on("f32[8,64]", "i32[8,64]"), on("f32[8,64]"), "%%r0 = take %%v0, %%v1 {axis=1} : f32[8,64]").bound = 64
	add("take_fewer", on("f32[8,128]", "i32[8,64]"), on("f32[8,64]"), "%%r0 = take %%v0, %%v1 {axis=1} : f32[8,64]").bound = 128
	add("take_more", on("f32[8,64]", "i32[8,128]"), on("f32[8,128]"), "%%r0 = take %%v0, %%v1 {axis=1} : f32[8,128]").bound = 64
	add("take_rows", on("f32[8,128]", "i32[8,128]"), on("f32[8,128]"), "%%r0 = take %%v0, %%v1 {axis=0} : f32[8,128]").bound = 8
	for _, p := range []string{"f32", "bf16x1", "bf16x6"} {
		for _, d := range []string{"f32", "bf16"} {
			add("dot_"+d+"_"+p, on(ty(d, 64, 128), ty(d, 128, 128)), on("f32[64,128]"), "%%r0 = dot %%v0, %%v1 {lb=[], rb=[], lc=[1], rc=[0], prec=%s} : f32[64,128]", p).tol = dotTol
		}
	}
	for _, l := range []int{0, 1} {
		for _, r := range []int{0, 1} {
			for _, s := range [][3]int{{64, 128, 128}, {16, 16, 16}, {8, 64, 128}, {128, 64, 64}, {1, 128, 128}, {48, 96, 80}, {8, 4, 4}} {
				m, k, n := s[0], s[1], s[2]
				left, right := []int{k, m}, []int{k, n}
				if l == 1 {
					left = []int{m, k}
				}
				if r == 1 {
					right = []int{n, k}
				}
				for _, d := range []string{"f32", "bf16"} {
					add(fmt.Sprintf("dot_%s_%d%d_%d_%d_%d", d, l, r, m, k, n), on(ty(d, left...), ty(d, right...)), on(ty("f32", m, n)), "%%r0 = dot %%v0, %%v1 {lb=[], rb=[], lc=[%d], rc=[%d], prec=bf16x1} : %s", l, r, ty("f32", m, n)).tol = dotTol
				}
			}
		}
	}
	add("dot_mixed", on("f32[64,128]", "bf16[128,128]"), on("bf16[64,128]"), "%%r0 = dot %%v0, %%v1 {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : bf16[64,128]").tol = bf16Tol
	add("loop", on(x("f32")), on(x("f32")), `%%l, %%m = loop %%v0, %%v0 {count=3} (%%i: i32[], %%p: %[1]s, %%q: %[1]s) {
%%f = convert %%i : f32[]
%%b = broadcast %%f {dims=[]} : %[1]s
%%s = add %%p, %%b : %[1]s
%%t = mul %%q, %%s : %[1]s
yield %%s, %%t
} : %[1]s, %[1]s @state
%%r0 = sub %%l, %%m : %[1]s`, x("f32"))
	copyRows := `%%z0 = const {value=0} : %[1]s
store %%z0, %%o0 {starts=[0,0]}
loop {count=%[2]d} (%%i: i32[]) {
%%z = const {value=0} : i32[]
%%e = const {value=%[3]d} : i32[]
%%j = mul %%i, %%e : i32[]
%%t = load %%a0, %%j, %%z {starts=[%[4]d,0]} : %[5]s
store %%t, %%o0, %%j, %%z {starts=[%[6]d,0]} @state.c1
yield
}`
	add("rows_8", on("f32[64,128]"), on("f32[64,128]"), copyRows, "f32[64,128]", 8, 8, 0, "f32[8,128]", 0)
	add("rows_any", on("f32[64,128]"), on("f32[64,128]"), copyRows, "f32[64,128]", 5, 1, 3, "f32[8,128]", 2)
	add("rows_one", on("f32[64,128]"), on("f32[64,128]"), copyRows, "f32[64,128]", 5, 3, 1, "f32[1,128]", 7)
	add("rows_16_bf16", on("bf16[64,128]"), on("bf16[64,128]"), copyRows, "bf16[64,128]", 4, 16, 0, "bf16[16,128]", 0)
	add("rows_8_bf16", on("bf16[64,128]"), on("bf16[64,128]"), copyRows, "bf16[64,128]", 8, 8, 0, "bf16[8,128]", 0)
	add("leading", on("f32[4,8,128]"), on("f32[4,8,128]"), `loop {count=4} (%%i: i32[]) {
%%z = const {value=0} : i32[]
%%t = load %%a0, %%i, %%z, %%z {starts=[0,0,0]} : f32[8,128]
%%u = neg %%t : f32[8,128]
store %%u, %%o0, %%i, %%z, %%z {starts=[0,0,0]} @state.c1
yield
}`)
	add("lanes_128", on("f32[8,512]"), on("f32[8,512]"), `loop {count=4} (%%i: i32[]) {
%%z = const {value=0} : i32[]
%%e = const {value=128} : i32[]
%%j = mul %%i, %%e : i32[]
%%t = load %%a0, %%z, %%j {starts=[0,0]} : f32[8,128]
store %%t, %%o0, %%z, %%j {starts=[0,0]} @state.c1
yield
}`)
	for _, s := range [][2]int{{2, 8}, {4, 8}, {8, 8}, {3, 8}, {2, 16}, {4, 4}, {2, 5}} {
		rows := ty("f32", s[1], 128)
		add(fmt.Sprintf("strided_load_%d_%d", s[0], s[1]), on("f32[128,128]"), on(rows), "%%r0 = load %%a0 {starts=[1,0], strides=[%d,1]} : %s", s[0], rows)
		add(fmt.Sprintf("strided_store_%d_%d", s[0], s[1]), on(rows), on("f32[128,128]"), "%%z = const {value=1} : f32[128,128]\nstore %%z, %%o0 {starts=[0,0]}\nstore %%v0, %%o0 {starts=[1,0], strides=[%d,1]}", s[0])
	}
	add("strided_3d", on("f32[2,128,128]"), on("f32[8,128]"), "%%r0 = load %%a0 {starts=[1,1,0], strides=[1,2,1]} : f32[8,128]")
	add("refcast_load", on("bf16[256,128]"), on("bf16[128,128]"), `%%w = refcast %%a0 : vmem:u32[128,128]
%%o = refcast %%o0 : vmem:u32[64,128]
%%t = load %%w {starts=[1,0], strides=[2,1]} : u32[64,128]
store %%t, %%o {starts=[0,0]} @write`)
	add("refcast_store", on("bf16[64,128]"), on("bf16[128,128]"), `%%w = refcast %%a0 : vmem:u32[32,128]
%%o = refcast %%o0 : vmem:u32[64,128]
%%t = load %%w {starts=[0,0]} : u32[32,128]
store %%t, %%o {starts=[0,0], strides=[2,1]} @write
store %%t, %%o {starts=[1,0], strides=[2,1]} @write`)
	add("refcast_join", on("bf16[4,32,128]"), on("bf16[128,128]"), "%%w = refcast %%a0 : vmem:bf16[128,128]\n%%r0 = load %%w {starts=[0,0]} : bf16[128,128]")
	add("refcast_join_words", on("bf16[4,32,128]"), on("u32[32,128]"), "%%w = refcast %%a0 : vmem:u32[64,128]\n%%r0 = load %%w {starts=[1,0], strides=[2,1]} : u32[32,128]")
	add("refcast_split", on("f32[64,128]"), on("f32[8,128]"), "%%w = refcast %%a0 : vmem:f32[8,8,128]\n%%r0 = load %%w {starts=[3,0,0]} : f32[8,128]")
	add("scratch", on(x("f32")), on(x("f32")), `store %%v0, %%s {starts=[0,0]}
store %%v0, %%w {starts=[1,0,0]}
%%t = load %%s {starts=[8,0]} : f32[8,128]
%%u = load %%w {starts=[1,0,0]} : f32[8,128]
%%r0 = concat %%t, %%u {axis=0} : %s`, x("f32")).scratch = []string{"%s: vmem:" + x("f32"), "%w: vmem:f32[2,16,128]"}
	add("smem", on(x("f32")), on(x("f32")), `%%z = const {value=3} : i32[]
store %%z, %%s {starts=[2]}
%%t = load %%s {starts=[2]} : i32[]
%%u = convert %%t : f32[]
%%b = broadcast %%u {dims=[]} : %[1]s
%%r0 = add %%v0, %%b : %[1]s`, x("f32")).scratch = []string{"%s: smem:i32[4]"}
	add("when", on(x("f32")), on(x("f32")), `%%p = program_id {axis=0} : i32[]
%%z = const {value=0} : i32[]
%%c = compare %%p, %%z {cmp=eq} : bool[]
%%d = compare %%p, %%z {cmp=ne} : bool[]
when %%c () {
store %%v0, %%o0 {starts=[0,0]} @first
yield
}
when %%d () {
%%n = load %%o0 {starts=[0,0]} : %[1]s
%%m = add %%n, %%v0 : %[1]s
%%s = select %%c, %%n, %%m : %[1]s
store %%s, %%o0 {starts=[0,0]} @rest
yield
}`, x("f32")).dims = "i:3:seq"
	add("scalar_integers", on(x("f32")), on(x("f32")), `%%p = program_id {axis=0} : i32[]
%%two = const {value=2} : i32[]
%%zero = const {value=0} : i32[]
%%a = compare %%p, %%zero {cmp=gt} : bool[]
%%b = compare %%p, %%two {cmp=lt} : bool[]
%%c = and %%a, %%b : bool[]
%%n = not %%c : bool[]
when %%n () {
%%z = const {value=7} : %[1]s
store %%z, %%o0 {starts=[0,0]} @edge
yield
}
when %%c () {
%%m = mul %%p, %%two : i32[]
%%s = sub %%m, %%p : i32[]
%%t = max %%s, %%two : i32[]
%%u = select %%b, %%t, %%zero : i32[]
%%d = and %%u, %%two : i32[]
%%e = shl %%d, %%two : i32[]
%%f = convert %%e : f32[]
%%g = broadcast %%f {dims=[]} : %[1]s
%%h = load %%o0 {starts=[0,0]} : %[1]s
%%i = add %%g, %%h : %[1]s
%%j = add %%i, %%v0 : %[1]s
store %%j, %%o0 {starts=[0,0]} @middle
yield
}`, x("f32")).dims = "i:2:seq"
	for i, sem := range []string{"sem[]", "sem[1]"} {
		add(fmt.Sprint("dma_", i), on("f32[64,128]"), on("f32[64,128]"), "dma_start %%a0, %%b, %%s @copy\ndma_wait %%a0, %%b, %%s @copy\n%%r0 = load %%b {starts=[0,0]} : f32[64,128]").scratch = []string{"%b: vmem:f32[64,128]", "%s: vmem:" + sem}
	}
	add("dma_block", on("f32[64,128]"), on("f32[64,128]"), "%%z = const {value=0} : i32[]\n%%p = program_id {axis=0} : i32[]\n%%u = const {value=1} : i32[]\n%%i = sub %%u, %%p : i32[]\ndma_start %%a0, %%b, %%s, %%z, %%i {block=[64,128]} @copy\n"+
		"dma_wait %%a0, %%b, %%s, %%z, %%i {block=[64,128]} @copy\n%%r0 = load %%b {starts=[64,0]} : f32[64,128]").scratch = []string{"%b: vmem:f32[128,128]", "%s: vmem:sem[]"}
	add("chain_bf16", on(x("bf16"), x("bf16")), on(x("bf16")), "%%s = mul %%v0, %%v1 : %[1]s\n%%t = add %%s, %%v0 : %[1]s\n%%m = max %%t, %%v1 : %[1]s\n%%r0 = sub %%m, %%s : %[1]s", x("bf16"))
	add("small", on("f32[3,5]", "f32[3,5]"), on("f32[3,5]"), "%%r0 = mul %%v0, %%v1 : f32[3,5]")
	add("square_64", on("f32[64,64]", "f32[64,64]"), on("f32[64,64]"), "%%r0 = mul %%v0, %%v1 : f32[64,64]")
	add("scalars", on(x("f32")), on(x("f32")), `%%p = program_id {axis=0} : i32[]
%%f = convert %%p : f32[]
%%c = const {value=0.5} : f32[]
%%g = add %%f, %%c : f32[]
%%e = exp %%g : f32[]
%%h = sqrt %%e : f32[]
%%m = max %%h, %%c : f32[]
%%d = div %%m, %%e : f32[]
%%i = convert %%d : i32[]
%%b = broadcast %%d {dims=[]} : %[1]s
%%j = broadcast %%i {dims=[]} : %[2]s
%%k = convert %%j : %[1]s
%%l = add %%b, %%k : %[1]s
%%r0 = add %%v0, %%l : %[1]s`, x("f32"), x("i32")).tol = f32Tol
	return cs
}
