package gdn

// Champion is the best known variant for one job: a row of the table that auto chooses from.
type Champion struct {
	Host     Host
	Accuracy Accuracy // the error class that the variant satisfies
	job      job
	Text     string // the variant, in the form that ParseVariant reads
	Why      string
	where    where
}

// where restricts a row to specs and machines. A zero field does not restrict.
type where struct {
	mxu         int      // MXU size: 128 or 256
	vmem        int      // largest vector memory of a core, in MiB
	least, most int      // bounds on the states of a program: heads x batch rows x MXU tiles of [K, V]; decode: bounds on all states of a call
	steps       int      // fewest grid steps; below, the first and last step (fill and drain) cost too much
	tokens      int      // most tokens, for rows of short sequences or packs; without steps, any amount of padding is accepted
	rules       ruleKind // the only kind of rules
	segments    int      // most varlen blocks: pairs of a block and a sequence in it
	packed      bool     // only gradients of packed sequences
	beyond1     bool     // only specs whose beta may exceed 1
	ordered     bool     // only states in the order of the sequences, without a pool
	decays      bool     // only for rules with a decay
	asGiven     bool     // only keys that need no normalization
	oneRow      bool     // only one batch row: with more, rows can be interleaved instead
	byHead      bool     // only rules with one decay a head, or none
	raw         bool     // only raw gates, so that the kernel computes g and beta
	given       bool     // only g and beta as inputs, so that the kernel does not compute them
	turned      bool     // only initial states [K, V], which kernels of packed sequences transpose
	untiled     bool     // only head counts that fill no tiles of rows, so that one program has all heads
	flat        bool     // only flat rows
	mixed       bool     // only mixed batches
	upTo1       bool     // only beta at most 1; with larger beta and no other row, the next stricter class is used
}

// asks reports whether a row applies to s, as far as gates, rule, states and head counts decide it.
func (w where) asks(s Spec) bool {
	given, turned := s.Gates == GatesGiven && s.Rule.kind() == allRules, s.Init && s.State == StateKV
	channels := s.Rule.kind() == channelRules
	return (given || !w.given) && (s.Gates == GatesFused || !w.raw) && (!channels || !w.byHead) && (s.Rule.Decays() || !w.decays) && (s.Batch == 1 || !w.oneRow) && (!s.L2Norm || !w.asGiven) && (s.Pool == 0 || !w.ordered) && (turned || !w.turned) && (s.Top() > 1 || !w.beyond1) && (s.Top() <= 1 || !w.upTo1) && (!s.Tiled() || !w.untiled) && (s.Rows != RowsHeads || !w.flat) && (s.Mixed > 0 || !w.mixed)
}

// ruleKind groups rules that share their best variants.
type ruleKind uint8

const (
	allRules       ruleKind = iota
	channelRules            // a decay per channel; if a host, class and job has rows for these, only they apply
	additiveRules           // no inverse, and a decay per head or none; tried before the rows for all rules
	undecayedRules          // a delta update without decay; likewise
)

func (r Rule) kind() ruleKind {
	switch {
	case r.Channels():
		return channelRules
	case !r.Writes():
		return additiveRules
	case !r.Decays():
		return undecayedRules
	}
	return allRules
}

// Values of Why that several rows share.
const (
	whyNoBF16       = "vector units beside MXUs of 128 rows have no bf16"
	whyChannels     = "decays of channels are work of the first phase"
	whyMap          = "a head or two wait for the state: output and next state are affine maps of it, so one product stands between two states in place of three"
	whyAdditive     = "V' is V, which is bf16 as it comes: a decay in it would be rounded anew, so K has it; HBM bounds the kernel, and its windows come from there beside the work"
	whyFull128      = "four interleaved chunks, in an order that keeps MXUs of 128 rows full"
	whyFourSegments = "four interleaved varlen blocks, one head at a time in merges, hide more of what units of 128 rows wait for, where there are steps enough"
	whySegments     = "interleaved varlen blocks, which come from HBM beside the work"
	whyTurned       = "where the kernel turns states that enter, in their phase, values are turned there too"
	whyGiven        = "where no gates are to be made, vector units have room for the decays"
	whySpread       = "decays are spread by transposes and the first phase ends early, so that the unit that moves lanes switches less"
	whyLanes        = "MXUs of 128 rows are full: sums for the gradient of the decay are done by the unit that moves lanes"
	whyOneSegment   = "blocks of tokens as they lie, visited for one of their sequences after another"
	whyNewton       = "one pass, with nothing rounded into K and Q, and a step of Newton's iteration for the inverse"
	whyParts        = "one pass and a step of Newton's iteration for the inverse, with what keys alike would sum in two bf16 parts; beta beyond 1 needs three passes"
	whyX3Long       = "three bf16 passes where gradients need them, one elsewhere: o errs as bf16 does, since no kernel as exact as float32 is known for training; four interleaved chunks hide the latency of MXUs of 256 rows in the forward kernel"
)

// Champions is the table that auto chooses from. Rows with the same host, accuracy and job are adjacent, in the order in which they are tried.
// The last of them has no conditions, and its numbers of heads and batch rows hold for the rows before it.
var Champions = []Champion{
	{HostTPU, AccuracyFast, jobPrefill, "tpu,head_group=4,out=separate,transpose_k=value,steps=1,decay_bf16=none,span=32", whyChannels + ", and value heads share nothing; " + whyNoBF16,
		where{mxu: 128, rules: channelRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu,head_group=4,out=separate,transpose_k=value,steps=1,interleave=no,span=32", whyChannels + ", and value heads share nothing; two chunks of a step take five times as long to compile",
		where{rules: channelRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,out=joined,phases_before=0", "few tokens are done in one step: there are no others for it to overlap",
		where{most: 8, tokens: 256, rules: additiveRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,hbm=yes,out=joined,head_group=2,chunks=2", whyAdditive + "; up to 1024 tokens the first fetch and the last store, which two chunks halve, weigh more than what four interleaved ones save",
		where{least: 8, most: 8, steps: 2, tokens: 1024, rules: additiveRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,hbm=yes,out=joined,head_group=2", whyAdditive,
		where{most: 8, steps: 2, rules: additiveRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu,out=joined", "heads alone fill a program, or the tokens do not fill two steps of four chunks; V' is V, so K has the decay that is left",
		where{rules: additiveRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-128,prefetch=dma,tail_decay=v,beta=right,state_delay=6,head_group=2", whyFull128 + "; without a decay beta has no exponent to go into, and from the right it waits for no lanes. It is in V' behind the output, since K with it would be rounded",
		where{mxu: 128, most: 8, steps: 2, rules: undecayedRules}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,tail_decay=v,phases_before=0", "few tokens are done in one step: there are no others for it to overlap",
		where{most: 8, tokens: 256}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-few,prefetch=dma,hbm=yes", whyMap,
		where{mxu: 256, most: 2, steps: 2, byHead: true, decays: true, oneRow: true, asGiven: true}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-few,chunks=4,prefetch=dma,hbm=yes", whyMap,
		where{mxu: 256, most: 2, steps: 2, byHead: true, decays: true, oneRow: true, asGiven: true}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,chunks=2,prefetch=dma,hbm=yes,tail_decay=v,head_group=2,state_delay=3", "up to 1024 tokens the first fetch and the last store, which two chunks halve, weigh more than what four interleaved ones save",
		where{mxu: 256, least: 8, most: 8, steps: 2, tokens: 1024}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,tail_decay=v,phases_before=0", "one step of four chunks is full and hides the latency of MXUs of 256 rows; there are no others to overlap",
		where{mxu: 256, least: 3, most: 8, steps: 1, tokens: 512}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,prefetch=dma,hbm=yes,tail_decay=v", "four interleaved chunks hide the latency of MXUs of 256 rows, and steps enough outweigh the first and last; the kernel copies their blocks from HBM beside the work",
		where{mxu: 256, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,chunks=2,prefetch=dma,hbm=yes,tail_decay=v", "heads that fill no tiles of rows are all in one program, which two interleaved chunks fill; the kernel copies their blocks from HBM beside the work",
		where{mxu: 256, least: 9, most: 16, steps: 2, untiled: true}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-128,prefetch=dma,tail_decay=v,chunks=2,decay_bf16=operands,head_group=2", "up to 1024 tokens the first fetch, which two chunks halve, weighs more than what four interleaved ones save; what weighs rows is moved along lanes, which two chunks do not wait for",
		where{mxu: 128, least: 8, most: 8, steps: 2, tokens: 1024}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-128,prefetch=dma,tail_decay=v,state_delay=6", whyFull128 + "; the kernel copies their blocks beside the work",
		where{mxu: 128, least: 5, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-128,prefetch=dma,tail_decay=v", whyFull128 + "; the kernel copies their blocks beside the work",
		where{mxu: 128, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-128,prefetch=dma,tail_decay=v,chunks=2,decay_bf16=operands,head_group=2", "two interleaved chunks, where four would have too few steps or too much padding; the kernel copies their blocks beside the work",
		where{mxu: 128, least: 3, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu-long,chunks=1,tail_decay=v", "24 heads more than fill a program; one head after another and one phase before the state cost less than tpu on MXUs of 128 rows, as much on others, and compile in a third of the time",
		where{least: 17, most: 24}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu,out=separate,tail_decay=v,prefetch=dma,hbm=yes,steps=1,head_group=1,phases_before=1", "flat rows of up to 32 heads that fill no tiles are all in one program, which copies them as they lie: a head is cut from its lanes",
		where{mxu: 256, least: 25, most: 32, untiled: true, flat: true}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu,out=separate,tail_decay=v,decay_bf16=rows,interleave=no,prologue_end=100", "heads alone fill a program; " + whyNoBF16,
		where{mxu: 128}},
	{HostTPU, AccuracyFast, jobPrefill, "tpu,out=separate,tail_decay=v", "heads alone fill a program, or the tokens do not fill two steps of four chunks", where{}},

	{HostTPU, AccuracyFast, jobPacked, "tpu,head_group=4,out=separate,transpose_k=value,steps=1,span=32", whyChannels + "; " + whyOneSegment, where{rules: channelRules}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0", "few sequences in one block are batch rows of it, with the tokens of others masked", where{tokens: 128, segments: 3}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-long,tail_decay=v,pack=masked,batch=4,phases_before=0", "sequences in one block are batch rows of it, with the tokens of others masked", where{mxu: 256, tokens: 128, segments: 4}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,chunks=1,phases_before=0", "four varlen blocks have no others to be interleaved with", where{mxu: 128, segments: 4}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,phases_before=0", "a few varlen blocks are done in two steps: there is nothing to overlap", where{mxu: 256, segments: 8}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=rows,chunks=4,mergepairs=32,state_whole=yes", whyFourSegments + "; " + whyTurned + "; " + whyGiven + " of columns in float32", where{mxu: 128, most: 8, steps: 8, turned: true, given: true}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,chunks=4,mergepairs=32,state_whole=yes", whyFourSegments + "; " + whyTurned, where{mxu: 128, most: 8, steps: 8, turned: true}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,chunks=4,mergepairs=32", whyFourSegments, where{mxu: 128, most: 8, steps: 8}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,state_delay=3,state_whole=yes", whySegments + "; " + whyTurned, where{mxu: 128, turned: true}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,state_delay=3", whySegments + "; " + whyNoBF16 + " for the decays of columns", where{mxu: 128}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=operands,prologue_end=80,state_whole=yes", whySegments + "; " + whyGiven + " from token to token in float32, and what meets the states is made beside their products", where{mxu: 256, given: true}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,chunks=2", "a mixed batch of up to 1024 tokens: its few blocks fill steps of two, where of four some would be idle", where{mxu: 256, tokens: 1024, mixed: true}},
	{HostTPU, AccuracyFast, jobPacked, "tpu-packed,prefetch=dma,hbm=yes", "tokens as they lie; " + whySegments, where{}},

	{HostTPU, AccuracyFast, jobDecode, "decode,hbm=yes", "one token a sequence, whose raw gates are work of a vector unit beside fast HBM: products with the state on the MXU leave it room",
		where{vmem: 64, tokens: 1, raw: true}},
	{HostTPU, AccuracyFast, jobDecode, "decode-f32,hbm=yes", "one token a sequence, of enough sequences for HBM to bound the step: all of it in float32 costs nothing", where{tokens: 1, byHead: true, ordered: true, least: 128}},
	{HostTPU, AccuracyFast, jobDecode, "decode,hbm=yes", "a few tokens a sequence: each state is read once and written once, in place of work on chunks; states come from HBM beside the work", where{}},

	{HostTPU, AccuracyFast, jobTraining, "tpu-train,out=separate,transpose_k=value,steps=1,head_group=4,bwd.steps=1,bwd.head_group=4,decay_bf16=none,bwd.decay_bf16=none,span=32", whyChannels + "; a chunk a step in three phases backwards, whose registers fit the stack; " + whyNoBF16,
		where{mxu: 128, rules: channelRules}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train,out=separate,transpose_k=value,steps=1,head_group=4,bwd.steps=1,bwd.phases_before=0,bwd.phases_after=0,bwd.head_group=4,span=32", whyChannels + "; a chunk a step in one phase backwards, since that kernel is long, and what passes between phases is stored",
		where{rules: channelRules}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train-long,row_broadcast=transpose,prefetch=dma,hbm=yes,head_group=2,state_delay=6,prologue_end=90", "four interleaved chunks hide the latency of MXUs of 256 rows in the forward kernel, which copies their blocks from HBM beside the work; " + whySpread + "; of 64 MiB of vector memory the compiler would give a part to whole arrays, for whose copies kernels wait",
		where{mxu: 256, vmem: 64, least: 3, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train-long,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,prologue_end=90", "four interleaved chunks hide the latency of MXUs of 256 rows in the forward kernel, which copies their blocks from HBM beside the work; " + whySpread,
		where{mxu: 256, least: 3, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train-128,row_broadcast=transpose,prefetch=dma,head_group=2,state_delay=6,prologue_end=90,bwd.state_delay=6", "four interleaved chunks in the forward kernel, which copies their blocks from HBM beside the work; " + whySpread + "; " + whyLanes + ", and vector units beside them have no bf16 for decays backwards",
		where{mxu: 128, least: 3, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train,decay_bf16=rows,bwd.decay_bf16=rows,grads=lanes,decaysums=lanes,bwd.state_delay=0,bwd.head_skew=0", "four interleaved chunks would have too few steps or too much padding; " + whyLanes,
		where{mxu: 128, least: 1, most: 8}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train-128,row_broadcast=transpose,head_group=2,state_delay=6,prologue_end=90,decay_bf16=rows,bwd.phases_before=0,bwd.head_group=4", whyOneSegment + ", four interleaved varlen blocks in the forward kernel; " + whyLanes + ", vector units beside them have no bf16 for decays, and what a visit joins is of one phase backwards",
		where{mxu: 128, packed: true, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train-long,row_broadcast=transpose,head_group=2,state_delay=6,prologue_end=90,bwd.head_group=4", whyOneSegment + ", four interleaved varlen blocks in the forward kernel",
		where{mxu: 256, packed: true, most: 8, steps: 2}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train,decay_bf16=rows,bwd.decay_bf16=rows,grads=lanes,decaysums=lanes,bwd.phases_before=0,bwd.head_group=4", whyOneSegment + ": what a visit joins is of one phase backwards; " + whyLanes, where{mxu: 128, packed: true}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train,hbm=yes,bwd.phases_before=0,bwd.head_group=4", whyOneSegment + ": what a visit joins is of one phase backwards; of 64 MiB of vector memory the compiler gives a part to whole arrays, and what it copies there waits for nothing else", where{vmem: 64, packed: true}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train,bwd.phases_before=0,bwd.head_group=4", whyOneSegment + ": what a visit joins is of one phase backwards", where{packed: true}},
	{HostTPU, AccuracyFast, jobTraining, "tpu-train", "heads alone fill a program, or the tokens do not fill two steps of four chunks", where{}},

	{HostTPU, AccuracyFLA, jobPrefill, "tpu-x3", "three bf16 passes for all products: with a decay a channel nothing cheaper is known to keep to the class", where{rules: channelRules}},
	{HostTPU, AccuracyFLA, jobPrefill, "tpu-long,fold=no,hbm=yes,head_group=2", "one pass, with nothing rounded into Q; V' is V, so K has the decay that is left",
		where{most: 8, steps: 2, rules: additiveRules}},
	{HostTPU, AccuracyFLA, jobPrefill, "tpu-long,fold=no,prefetch=dma,hbm=yes,tail_decay=v,refine=yes", whyNewton + "; four interleaved chunks hide the latency of MXUs of 256 rows",
		where{mxu: 256, most: 8, steps: 2}},
	{HostTPU, AccuracyFLA, jobPrefill, "tpu-128,fold=no,tail_decay=v,refine=yes,state_delay=6", whyNewton + "; in an order that keeps MXUs of 128 rows full",
		where{mxu: 128, most: 8, steps: 2}},
	{HostTPU, AccuracyFLA, jobPrefill, "tpu,fold=no,out=separate,tail_decay=v,refine=yes,decay_bf16=rows,interleave=no,prologue_end=100", whyNewton + "; " + whyNoBF16,
		where{mxu: 128}},
	{HostTPU, AccuracyFLA, jobPrefill, "tpu,fold=no,out=separate,tail_decay=v,refine=yes", whyNewton, where{}},
	{HostTPU, AccuracyFLA, jobPacked, "tpu-x3", "three bf16 passes for all products; " + whyOneSegment, where{rules: channelRules}},
	{HostTPU, AccuracyFLA, jobPacked, "tpu-packed,decay_bf16=rows,refine=yes", whyNewton + "; tokens without padding, by windows: few varlen blocks have no steps whose work hides what the kernel copies", where{segments: 8}},
	{HostTPU, AccuracyFLA, jobPacked, "tpu-packed,prefetch=dma,hbm=yes,decay_bf16=rows,refine=yes", whyNewton + "; tokens without padding, interleaved varlen blocks", where{}},

	{HostTPU, AccuracyFLA, jobTraining, "tpu-train,out=separate,transpose_k=value,steps=1,head_group=4,bwd.steps=1,bwd.phases_after=0,bwd.head_group=1,span=32,refine=yes,precapply=bf16x3,precgrad=bf16x3,decay_bf16=none,bwd.decay_bf16=none", whyParts + "; " + whyNoBF16,
		where{mxu: 128, rules: channelRules, upTo1: true}},
	{HostTPU, AccuracyFLA, jobTraining, "tpu-train,out=separate,transpose_k=value,steps=1,head_group=4,bwd.steps=1,bwd.phases_after=0,bwd.head_group=1,span=32,refine=yes,precapply=bf16x3,precgrad=bf16x3,decay_bf16=rows,bwd.decay_bf16=rows", whyParts,
		where{rules: channelRules, upTo1: true}},

	{HostTPU, AccuracyF32, jobPrefill, "chunk=64,leaf=32,flow=solve,layout=bthd,decay=base2,beta=exponent,transpose_k=key,row_broadcast=transpose,prec=bf16x3,split_at=def,head_group=1", "one or two heads and one chunk: no other work hides latency, so the shortest chain of instructions wins; three bf16 passes",
		where{most: 2, tokens: 64, byHead: true, decays: true, given: true, asGiven: true, oneRow: true}},
	{HostTPU, AccuracyF32, jobPrefill, "tpu-x3-long", "three bf16 passes for all products; four interleaved chunks hide the latency of MXUs of 256 rows",
		where{mxu: 256, least: 3, most: 8, steps: 2}},
	{HostTPU, AccuracyF32, jobPrefill, "tpu-x3", "three bf16 passes for all products", where{}},
	{HostTPU, AccuracyF32, jobPacked, "tpu-x3", "three bf16 passes for all products; " + whyOneSegment, where{}},
	{HostTPU, AccuracyF32, jobDecode, "decode-f32,hbm=yes", "a few tokens a sequence, all of it in float32 on the vector unit; states come from HBM beside the work", where{}},
	{HostTPU, AccuracyF32, jobTraining, "tpu-train-x3,prec=bf16x3,steps=1,bwd.steps=1", "three bf16 passes for all products: decays of channels are rounded into keys", where{rules: channelRules}},
	{HostTPU, AccuracyF32, jobTraining, "tpu-train-x3-long,bwd.state_delay=10", whyX3Long + "; where beta may be above 1 the product of keys and dS takes three passes, and what waits for it begins later",
		where{mxu: 256, least: 3, most: 8, steps: 2, beyond1: true}},
	{HostTPU, AccuracyF32, jobTraining, "tpu-train-x3-long", whyX3Long,
		where{mxu: 256, least: 3, most: 8, steps: 2}},
	{HostTPU, AccuracyF32, jobTraining, "tpu-train-x3-long", "three bf16 passes where gradients need them, one elsewhere: o errs as bf16 does, since no kernel as exact as float32 is known for training; four interleaved varlen blocks in the forward kernel",
		where{mxu: 256, packed: true, most: 8, steps: 2}},
	{HostTPU, AccuracyF32, jobTraining, "tpu-train-x3", "three bf16 passes where gradients need them, one elsewhere: o errs as bf16 does, since no kernel as exact as float32 is known for training", where{}},

	{HostCPU, AccuracyF32, jobPrefill, "cpu", "a loop over short chunks: the fastest known on a CPU", where{}},
	{HostCPU, AccuracyF32, jobPacked, "cpu-packed", "a stream of short chunks, of four sequences at once", where{}},
	{HostCPU, AccuracyF32, jobDecode, "cpu-decode", "a few tokens a sequence: each state is read once and written once", where{}},
	{HostCPU, AccuracyF32, jobTraining, "cpu", "a loop over short chunks: the fastest known on a CPU", where{}},

	{HostLoops, AccuracyF32, jobPrefill, "cpu", "one loop over short chunks, whose body the framework compiles once", where{}},
	{HostLoops, AccuracyF32, jobPacked, "cpu", "one loop over short chunks, whose body the framework compiles once", where{}},
	{HostLoops, AccuracyF32, jobDecode, "token-inner", "a few tokens a sequence, on tensors as they are", where{tokens: 1}},
	{HostLoops, AccuracyF32, jobDecode, "cpu", "one loop over short chunks, whose body the framework compiles once", where{}},
	{HostLoops, AccuracyF32, jobTraining, "cpu", "one loop over short chunks, whose body the framework compiles once", where{}},

	{HostUnrolled, AccuracyF32, jobPrefill, "chunk=64,flow=split,form=uw", "loops are unrolled, so all that needs no state is done for all chunks at once", where{}},
	{HostUnrolled, AccuracyF32, jobPacked, "chunk=64,flow=split,form=uw", "loops are unrolled, so all that needs no state is done for all chunks at once", where{}},
	{HostUnrolled, AccuracyF32, jobDecode, "token-inner", "a few tokens a sequence, on tensors as they are", where{tokens: 1}},
	{HostUnrolled, AccuracyF32, jobDecode, "chunk=64,flow=split,form=uw", "loops are unrolled, so all that needs no state is done for all chunks at once", where{}},
	{HostUnrolled, AccuracyF32, jobTraining, "chunk=64,flow=split,form=uw", "loops are unrolled, so all that needs no state is done for all chunks at once", where{}},
}
