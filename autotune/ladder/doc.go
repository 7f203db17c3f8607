// Package ladder says whether a kernel's gain is one of the system: base and candidate climb from right numbers over the kernel, a layer
// and a model to the guards, which are other targets, shapes and the backward pass.
//
// Rules:
//
//  1. A rung is climbed only where the rung below gained. The rung that did not move ends the climb, and names the missing piece, computed
//     from what base and candidate cost there.
//  2. Base and candidate are judged by the same instrument: static cost, or a device that runs them in turn. A measured gain needs the whole
//     interval of the ratio; where the interval covers what is asked, the decision is inconclusive.
//  3. Each rung is one record, written when it is known. The same command goes on after a kill, and asks nothing twice.
package ladder
