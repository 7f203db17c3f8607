#include "textflag.h"

// Products are rounded before they are added: no fused steps.

// One row of x times both halves of a row of y, which are in Y8 and Y9.
#define ROW(offset, low, high) \
	VBROADCASTSS offset(SI), Y10 \
	VMULPS Y8, Y10, Y11          \
	VMULPS Y9, Y10, Y12          \
	VADDPS Y11, low, low         \
	VADDPS Y12, high, high

// func multiplyAVX(c, x, y *float32, k int)
TEXT ·multiplyAVX(SB), NOSPLIT, $0-32
	MOVQ c+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ k+24(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

products:
	VMOVUPS (DX), Y8
	VMOVUPS 32(DX), Y9
	ROW(0, Y0, Y1)
	ROW(4, Y2, Y3)
	ROW(8, Y4, Y5)
	ROW(12, Y6, Y7)
	ADDQ $16, SI
	ADDQ $64, DX
	DECQ CX
	JNZ  products

	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	VZEROUPPER
	RET

// Four columns of a row: decayed, written, and times k[i] (Y15) in the sum. Y14 is the decay.
#define DECAYED(offset, sum) \
	VMULPD  offset(SI), Y14, Y4 \
	VMOVUPD Y4, offset(SI)      \
	VMULPD  Y4, Y15, Y5         \
	VADDPD  Y5, sum, sum

// func decayedSumAVX(sum, m, k *float64, rows, stride int, decay float64)
TEXT ·decayedSumAVX(SB), NOSPLIT, $0-48
	MOVQ sum+0(FP), DI
	MOVQ m+8(FP), SI
	MOVQ k+16(FP), DX
	MOVQ rows+24(FP), CX
	MOVQ stride+32(FP), R8
	SHLQ $3, R8
	VBROADCASTSD decay+40(FP), Y14
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

decayed:
	VBROADCASTSD (DX), Y15
	DECAYED(0, Y0)
	DECAYED(32, Y1)
	DECAYED(64, Y2)
	DECAYED(96, Y3)
	ADDQ R8, SI
	ADDQ $8, DX
	DECQ CX
	JNZ  decayed

	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VZEROUPPER
	RET

// Four columns of a row: k[i] (Y15) times u added, written, and times q[i] (Y14) in the sum.
#define UPDATED(offset, u, sum) \
	VMULPD  u, Y15, Y8         \
	VADDPD  offset(SI), Y8, Y8 \
	VMOVUPD Y8, offset(SI)     \
	VMULPD  Y8, Y14, Y8        \
	VADDPD  Y8, sum, sum

// func updatedSumAVX(sum, m, k, q, u *float64, rows, stride int)
TEXT ·updatedSumAVX(SB), NOSPLIT, $0-56
	MOVQ sum+0(FP), DI
	MOVQ m+8(FP), SI
	MOVQ k+16(FP), DX
	MOVQ q+24(FP), R9
	MOVQ u+32(FP), R10
	MOVQ rows+40(FP), CX
	MOVQ stride+48(FP), R8
	SHLQ $3, R8
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VMOVUPD (R10), Y4
	VMOVUPD 32(R10), Y5
	VMOVUPD 64(R10), Y6
	VMOVUPD 96(R10), Y7

updated:
	VBROADCASTSD (DX), Y15
	VBROADCASTSD (R9), Y14
	UPDATED(0, Y4, Y0)
	UPDATED(32, Y5, Y1)
	UPDATED(64, Y6, Y2)
	UPDATED(96, Y7, Y3)
	ADDQ R8, SI
	ADDQ $8, DX
	ADDQ $8, R9
	DECQ CX
	JNZ  updated

	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	VZEROUPPER
	RET
