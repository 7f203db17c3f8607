// Package table gives access to a plugin's PJRT table of functions (PJRT_Api of pjrt_c_api.h) for calls that the binding lacks: the kind
// of a device, extensions, and programs that are completed when compiled.
//
// A plugin is loaded here and registered with the binding as a linked-in plugin, so only the binding's exported API is used. The binding
// calls a copy of the table, in which two functions go through this package.
package table
