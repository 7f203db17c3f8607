// Package table is PJRT's table of functions of a plugin (PJRT_Api of pjrt_c_api.h), for what the binding has no call for: the kind of a device,
// extensions, and programs that are completed as they are compiled.
//
// A plugin is loaded here and given to the binding by the door that it has for plugins that are linked in, so that nothing is read of the
// binding but what it exports. The binding calls a copy of the table, in which two functions pass through this package.
package table
