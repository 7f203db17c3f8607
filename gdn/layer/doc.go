// Package layer is Gated DeltaNet for GoMLX.
package layer
