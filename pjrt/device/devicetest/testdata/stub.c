// A PJRT plugin for tests: the plugin named by GDNGEN_STUB_PLUGIN, with a fault or under another name. The environment says which:
//
//   GDNGEN_STUB_FAULT     crash (as a client is made), hang (then), garbage (in every result), dies:N or stops:N (in execution N)
//   GDNGEN_STUB_KIND      the kind of its devices
//   GDNGEN_STUB_PLATFORM  the name of its platform
//   GDNGEN_STUB_PROGRAM   a file with the program that it compiles in place of one that holds a kernel for a TPU
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

static void hang(void) {
  for (;;) pause();
}

static PJRT_Error *create(PJRT_Client_Create_Args *args) {
  if (fault("crash", NULL)) {
    fprintf(stderr, "the stub crashes\n");
    abort();
  }
  if (fault("hang", NULL)) hang();
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
  return real->PJRT_LoadedExecutable_Execute(args);
}

// to_host spoils what was copied; a call without a destination asks for the size alone.
static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *args) {
  PJRT_Error *err = real->PJRT_Buffer_ToHostBuffer(args);
  if (err == NULL && args->dst != NULL && fault("garbage", NULL)) {
    PJRT_Event_Await_Args wait = {.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE, .event = args->event};
    if (real->PJRT_Event_Await(&wait) != NULL) abort();
    memset(args->dst, 0x3f, args->dst_size);
  }
  return err;
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
  stub.PJRT_Client_Create = create;
  stub.PJRT_Client_PlatformName = platform;
  stub.PJRT_Client_Compile = compile;
  stub.PJRT_DeviceDescription_Kind = kind;
  stub.PJRT_LoadedExecutable_Execute = execute;
  stub.PJRT_Buffer_ToHostBuffer = to_host;
  return &stub;
}
