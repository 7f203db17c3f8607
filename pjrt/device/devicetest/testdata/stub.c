// A PJRT plugin for tests: the plugin named by GDNGEN_STUB_PLUGIN, with a fault or under another name. The environment says which:
//
//   GDNGEN_STUB_FAULT     crash (as a client is made), hang (then), metadata (hang, unless told to ask no metadata server), locked (then),
//                         garbage (in every result), columns (the device has a layout of its own, which a copy that asks for none gets),
//                         dies:N, stops:N or fails:N (in execution N)
//   GDNGEN_STUB_KIND      the kind of its devices
//   GDNGEN_STUB_CAPABILITY  their compute capability, as a GPU's plugin tells it, of 114 multiprocessors
//   GDNGEN_STUB_PLATFORM  the name of its platform
//   GDNGEN_STUB_PROGRAM   a file with the program that it compiles in place of one that holds a kernel for a TPU
//   GDNGEN_STUB_PROFILER  a file with what its profiler sees, refuses (as a session starts), or older (a table that is too small)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pjrt_c_api.h"

static const PJRT_Api *real;
static PJRT_Api stub;

// fault tells whether the fault has this name, and gives its number.
static int fault(const char *name, int *number) {
  const char *text = getenv("GDNGEN_STUB_FAULT");
  size_t n = strlen(name);
  if (text == NULL || strncmp(text, name, n) != 0) return 0;
  if (number != NULL && text[n] == ':') *number = atoi(text + n + 1);
  return 1;
}

// One error is the stub's own.
static struct { const char *text; } own;

static PJRT_Error *refuse(const char *text) {
  own.text = text;
  return (PJRT_Error *)&own;
}

static void error_destroy(PJRT_Error_Destroy_Args *args) {
  if (args->error != (PJRT_Error *)&own) real->PJRT_Error_Destroy(args);
}

static void error_message(PJRT_Error_Message_Args *args) {
  if (args->error != (const PJRT_Error *)&own) {
    real->PJRT_Error_Message(args);
    return;
  }
  args->message = own.text;
  args->message_size = strlen(own.text);
}

static PJRT_Error *error_code(PJRT_Error_GetCode_Args *args) {
  if (args->error != (const PJRT_Error *)&own) return real->PJRT_Error_GetCode(args);
  args->code = PJRT_Error_Code_INTERNAL;
  return NULL;
}

static void hang(void) {
  for (;;) pause();
}

static PJRT_Error *create(PJRT_Client_Create_Args *args) {
  if (fault("crash", NULL)) {
    fprintf(stderr, "the stub crashes\n");
    abort();
  }
  if (fault("hang", NULL) || (fault("metadata", NULL) && getenv("TPU_SKIP_MDS_QUERY") == NULL)) hang();
  if (fault("locked", NULL)) return refuse("Internal error when accessing libtpu multi-process lockfile. Run \"$ sudo rm /tmp/libtpu_lockfile\".");
  return real->PJRT_Client_Create(args);
}

static PJRT_Error *kind(PJRT_DeviceDescription_Kind_Args *args) {
  PJRT_Error *err = real->PJRT_DeviceDescription_Kind(args);
  const char *name = getenv("GDNGEN_STUB_KIND");
  if (err == NULL && name != NULL) {
    args->device_kind = name;
    args->device_kind_size = strlen(name);
  }
  return err;
}

static PJRT_Error *attributes(PJRT_DeviceDescription_Attributes_Args *args) {
  PJRT_Error *err = real->PJRT_DeviceDescription_Attributes(args);
  static PJRT_NamedValue list[2];
  const char *capability = getenv("GDNGEN_STUB_CAPABILITY");
  if (err != NULL || capability == NULL) return err;
  for (int i = 0; i < 2; i++) {
    list[i] = (PJRT_NamedValue){.struct_size = PJRT_NamedValue_STRUCT_SIZE, .name = i ? "core_count" : "compute_capability", .name_size = i ? 10 : 18};
    list[i].value_size = i ? 1 : strlen(capability);
  }
  list[0].type = PJRT_NamedValue_kString, list[0].string_value = capability;
  list[1].type = PJRT_NamedValue_kInt64, list[1].int64_value = 114;
  args->attributes = list;
  args->num_attributes = 2;
  return NULL;
}

static PJRT_Error *platform(PJRT_Client_PlatformName_Args *args) {
  PJRT_Error *err = real->PJRT_Client_PlatformName(args);
  const char *name = getenv("GDNGEN_STUB_PLATFORM");
  if (err == NULL && name != NULL) {
    args->platform_name = name;
    args->platform_name_size = strlen(name);
  }
  return err;
}

static PJRT_Error *compile(PJRT_Client_Compile_Args *args) {
  const char *path = getenv("GDNGEN_STUB_PROGRAM");
  if (path == NULL || memmem(args->program->code, args->program->code_size, "tpu_custom_call", 15) == NULL) return real->PJRT_Client_Compile(args);
  FILE *f = fopen(path, "rb");
  if (f == NULL) abort();
  fseek(f, 0, SEEK_END);
  size_t size = ftell(f);
  rewind(f);
  char *text = malloc(size);
  if (fread(text, 1, size, f) != size) abort();
  fclose(f);
  PJRT_Program program = *args->program;
  program.code = text;
  program.code_size = size;
  PJRT_Client_Compile_Args other = *args;
  other.program = &program;
  PJRT_Error *err = real->PJRT_Client_Compile(&other);
  args->executable = other.executable;
  free(text);
  return err;
}

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args) {
  static int runs = 0;
  int number = -1;
  runs++;
  if (fault("dies", &number) && runs == number) raise(SIGKILL);
  if (fault("stops", &number) && runs == number) hang();
  if (fault("fails", &number) && runs == number) return refuse("the chip has lost a core");
  return real->PJRT_LoadedExecutable_Execute(args);
}

// rows tells whether a copy asks for its rows one after another.
static int rows(const PJRT_Buffer_ToHostBuffer_Args *args) {
  if (args->host_layout == NULL || args->host_layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled) return 0;
  size_t n = args->host_layout->tiled.minor_to_major_size;
  for (size_t i = 0; i < n; i++)
    if (args->host_layout->tiled.minor_to_major[i] != (int64_t)(n - 1 - i)) return 0;
  return 1;
}

// to_host spoils what was copied; a call without a destination asks for the size alone.
static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *args) {
  PJRT_Error *err = real->PJRT_Buffer_ToHostBuffer(args);
  if (err == NULL && args->dst != NULL && (fault("garbage", NULL) || (fault("columns", NULL) && !rows(args)))) {
    PJRT_Event_Await_Args wait = {.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = args->event};
    if (real->PJRT_Event_Await(&wait) != NULL) abort();
    memset(args->dst, 0x3f, args->dst_size);
  }
  return err;
}

// The profiler, in the layout of xla/backends/profiler/plugin/profiler_c_api.h. A session wants to be started and stopped before it is asked.
typedef struct { const char *text; int code; } fault_of_profiler;
typedef struct { int state; FILE *file; size_t size; } session;
typedef struct { size_t struct_size; void *priv; fault_of_profiler *fault; const char *message; size_t message_size; } fault_args;
typedef struct { size_t struct_size; const char *options; size_t options_size; session *session; } create_args;
typedef struct { size_t struct_size; session *session; } session_args;
typedef struct { size_t struct_size; session *session; char *buffer; size_t buffer_size; } collect_args;

static fault_of_profiler *complain(const char *text) {
  fault_of_profiler *f = malloc(sizeof *f);
  f->text = text;
  f->code = 9;
  return f;
}

static void fault_destroy(fault_args *a) {
  if (a->struct_size != 24) abort();
  free(a->fault);
}

static void fault_message(fault_args *a) {
  if (a->struct_size != sizeof *a) abort();
  a->message = a->fault->text;
  a->message_size = strlen(a->fault->text);
}

static fault_of_profiler *session_create(create_args *a) {
  static const char want[] = {8, 1, 16, 2, 24, 1, 40, 1, 56, 1};
  if (a->struct_size != sizeof *a) return complain("wrong size of the arguments");
  if (a->options_size != sizeof want || memcmp(a->options, want, sizeof want) != 0) return complain("options that are not known");
  a->session = calloc(1, sizeof(session));
  return NULL;
}

static fault_of_profiler *session_destroy(session_args *a) {
  if (a->session->file != NULL) fclose(a->session->file);
  free(a->session);
  return NULL;
}

static fault_of_profiler *session_start(session_args *a) {
  if (strcmp(getenv("GDNGEN_STUB_PROFILER"), "refuses") == 0) return complain("another session is open");
  if (a->session->state++ != 0) return complain("started twice");
  return NULL;
}

static fault_of_profiler *session_stop(session_args *a) {
  return a->session->state++ == 1 ? NULL : complain("stopped out of turn");
}

static fault_of_profiler *session_collect(collect_args *a) {
  session *s = a->session;
  if (a->struct_size != sizeof *a || s->state != 2) return complain("asked out of turn");
  if (a->buffer == NULL) {
    s->file = fopen(getenv("GDNGEN_STUB_PROFILER"), "rb");
    if (s->file == NULL) return complain("no such file");
    fseek(s->file, 0, SEEK_END);
    a->buffer_size = s->size = ftell(s->file);
    rewind(s->file);
    return NULL;
  }
  return a->buffer_size == s->size && fread(a->buffer, 1, s->size, s->file) == s->size ? NULL : complain("the buffer is of another size");
}

static struct {
  size_t struct_size;
  void *priv, *error_destroy, *error_message, *error_code, *create, *destroy, *start, *stop, *collect;
} profiler = {80, NULL, fault_destroy, fault_message, NULL, session_create, session_destroy, session_start, session_stop, session_collect};

static struct {
  PJRT_Extension_Base base;
  void *api;
} extension;

static void add_profiler(void) {
  const char *what = getenv("GDNGEN_STUB_PROFILER");
  if (what == NULL) return;
  if (strcmp(what, "older") == 0) profiler.struct_size = 64;
  extension.base.struct_size = sizeof extension;
  extension.base.type = PJRT_Extension_Type_Profiler;
  extension.base.next = stub.extension_start;
  extension.api = &profiler;
  stub.extension_start = &extension.base;
}

const PJRT_Api *GetPjrtApi(void) {
  if (real != NULL) return &stub;
  void *library = dlopen(getenv("GDNGEN_STUB_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  const PJRT_Api *(*get)(void) = library == NULL ? NULL : (const PJRT_Api *(*)(void))dlsym(library, "GetPjrtApi");
  if (get == NULL) {
    fprintf(stderr, "stub: %s\n", dlerror());
    abort();
  }
  real = get();
  memcpy(&stub, real, real->struct_size < sizeof stub ? real->struct_size : sizeof stub);
  stub.struct_size = real->struct_size < sizeof stub ? real->struct_size : sizeof stub;
  stub.PJRT_Error_Destroy = error_destroy;
  stub.PJRT_Error_Message = error_message;
  stub.PJRT_Error_GetCode = error_code;
  stub.PJRT_Client_Create = create;
  stub.PJRT_Client_PlatformName = platform;
  stub.PJRT_Client_Compile = compile;
  stub.PJRT_DeviceDescription_Kind = kind;
  stub.PJRT_DeviceDescription_Attributes = attributes;
  stub.PJRT_LoadedExecutable_Execute = execute;
  stub.PJRT_Buffer_ToHostBuffer = to_host;
  add_profiler();
  return &stub;
}
