"""The structs and constants of onnxc.h for ctypes. Generated (`make bindings`): do not edit."""

from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t
from ctypes import c_ubyte, c_uint, c_ulonglong, c_ushort

String = c_char_p


def UNCHECKED(result):
    """ctypesgen's mark of a result that is used as it comes."""
    return result


uint16_t = c_ushort

uint32_t = c_uint

uint64_t = c_ulonglong

enum_anon_1 = c_int

ONNXC_OK = 0

ONNXC_BAD_ARGUMENT = 1

ONNXC_NO_VARIANT = 2

ONNXC_BAD_CPU = 3

ONNXC_OUT_OF_MEMORY = 4

ONNXC_BAD_WEIGHTS = 5

ONNXC_MODEL_ERROR = 6

class struct_onnxc_tensor(Structure):
    pass

struct_onnxc_tensor.__slots__ = [
    'data',
    'dims',
    'bytes',
    'name',
    'rank',
    'dtype',
]
struct_onnxc_tensor._fields_ = [
    ('data', POINTER(None)),
    ('dims', POINTER(c_int64)),
    ('bytes', c_int64),
    ('name', String),
    ('rank', c_int32),
    ('dtype', c_int32),
]

onnxc_tensor = struct_onnxc_tensor

class struct_onnxc_string(Structure):
    pass

struct_onnxc_string.__slots__ = [
    'data',
    'size',
]
struct_onnxc_string._fields_ = [
    ('data', String),
    ('size', c_size_t),
]

onnxc_string = struct_onnxc_string

class struct_onnxc_dim(Structure):
    pass

struct_onnxc_dim.__slots__ = [
    'value',
    'name',
]
struct_onnxc_dim._fields_ = [
    ('value', c_int64),
    ('name', String),
]

onnxc_dim = struct_onnxc_dim

class struct_onnxc_value(Structure):
    pass

struct_onnxc_value.__slots__ = [
    'name',
    'dims',
    'rank',
    'dtype',
]
struct_onnxc_value._fields_ = [
    ('name', String),
    ('dims', POINTER(onnxc_dim)),
    ('rank', c_int32),
    ('dtype', c_int32),
]

onnxc_value = struct_onnxc_value

class struct_onnxc_guard(Structure):
    pass

struct_onnxc_guard.__slots__ = [
    'low',
    'high',
    'multiple',
    'dim',
    'reserved',
]
struct_onnxc_guard._fields_ = [
    ('low', c_int64),
    ('high', c_int64),
    ('multiple', c_int64),
    ('dim', c_int32),
    ('reserved', c_int32),
]

onnxc_guard = struct_onnxc_guard

class struct_onnxc_env(Structure):
    pass

onnxc_prepare_entry = CFUNCTYPE(UNCHECKED(c_int32), POINTER(c_int64), POINTER(c_int64), POINTER(c_int64))

onnxc_run_entry = CFUNCTYPE(UNCHECKED(c_int32), POINTER(struct_onnxc_env), POINTER(POINTER(None)), POINTER(c_int64), POINTER(POINTER(None)), POINTER(None))

class struct_onnxc_variant(Structure):
    pass

struct_onnxc_variant.__slots__ = [
    'name',
    'target',
    'features',
    'workspace_bytes',
    'guards',
    'prepare',
    'run',
    'guard_count',
    'kernel_count',
]
struct_onnxc_variant._fields_ = [
    ('name', String),
    ('target', String),
    ('features', uint64_t),
    ('workspace_bytes', c_int64),
    ('guards', POINTER(onnxc_guard)),
    ('prepare', onnxc_prepare_entry),
    ('run', onnxc_run_entry),
    ('guard_count', c_int32),
    ('kernel_count', c_int32),
]

onnxc_variant = struct_onnxc_variant

class struct_onnxc_pair(Structure):
    pass

struct_onnxc_pair.__slots__ = [
    'key',
    'value',
]
struct_onnxc_pair._fields_ = [
    ('key', String),
    ('value', String),
]

onnxc_pair = struct_onnxc_pair

class struct_onnxc_api(Structure):
    pass

class struct_onnxc_model(Structure):
    pass

struct_onnxc_model.__slots__ = [
    'abi_major',
    'abi_minor',
    'threaded',
    'api',
    'name',
    'producer',
    'inputs',
    'outputs',
    'variants',
    'errors',
    'metadata',
    'feature_names',
    'report',
    'weights',
    'weights_file',
    'weights_id',
    'weights_bytes',
    'input_count',
    'output_count',
    'variant_count',
    'error_count',
    'metadata_count',
    'in_dim_count',
    'out_dim_count',
    'reserved',
]
struct_onnxc_model._fields_ = [
    ('abi_major', uint16_t),
    ('abi_minor', uint16_t),
    ('threaded', uint32_t),
    ('api', POINTER(struct_onnxc_api)),
    ('name', String),
    ('producer', String),
    ('inputs', POINTER(POINTER(onnxc_value))),
    ('outputs', POINTER(POINTER(onnxc_value))),
    ('variants', POINTER(POINTER(onnxc_variant))),
    ('errors', POINTER(POINTER(c_char))),
    ('metadata', POINTER(onnxc_pair)),
    ('feature_names', POINTER(POINTER(c_char))),
    ('report', String),
    ('weights', POINTER(None)),
    ('weights_file', String),
    ('weights_id', String),
    ('weights_bytes', c_int64),
    ('input_count', c_int32),
    ('output_count', c_int32),
    ('variant_count', c_int32),
    ('error_count', c_int32),
    ('metadata_count', c_int32),
    ('in_dim_count', c_int32),
    ('out_dim_count', c_int32),
    ('reserved', c_int32),
]

onnxc_model = struct_onnxc_model

class struct_onnxc_pool(Structure):
    pass

onnxc_pool = struct_onnxc_pool

class struct_onnxc_options(Structure):
    pass

struct_onnxc_options.__slots__ = [
    'size',
    'hidden_features',
    'alloc',
    'free',
    'user',
    'workspace',
    'workspace_bytes',
    'weights_path',
    'pool',
    'threads',
    'reserved',
]
struct_onnxc_options._fields_ = [
    ('size', c_size_t),
    ('hidden_features', uint64_t),
    ('alloc', CFUNCTYPE(UNCHECKED(POINTER(c_ubyte)), POINTER(None), c_size_t)),
    ('free', CFUNCTYPE(UNCHECKED(None), POINTER(None), POINTER(None))),
    ('user', POINTER(None)),
    ('workspace', POINTER(None)),
    ('workspace_bytes', c_size_t),
    ('weights_path', String),
    ('pool', POINTER(onnxc_pool)),
    ('threads', c_int32),
    ('reserved', c_int32),
]

onnxc_options = struct_onnxc_options

class struct_onnxc_context(Structure):
    pass

struct_onnxc_context.__slots__ = [
    'model',
]
struct_onnxc_context._fields_ = [
    ('model', POINTER(onnxc_model)),
]

onnxc_context = struct_onnxc_context

struct_onnxc_api.__slots__ = [
    'context_create',
    'context_destroy',
    'output_shapes',
    'run',
    'message',
    'variant',
    'pool',
    'threads',
    'call',
    'cpu_features',
    'explain',
]
struct_onnxc_api._fields_ = [
    ('context_create', CFUNCTYPE(UNCHECKED(c_int32), POINTER(onnxc_model), POINTER(onnxc_options), POINTER(POINTER(onnxc_context)))),
    ('context_destroy', CFUNCTYPE(UNCHECKED(None), POINTER(onnxc_context))),
    ('output_shapes', CFUNCTYPE(UNCHECKED(c_int32), POINTER(onnxc_context), POINTER(onnxc_tensor), c_int32, POINTER(onnxc_tensor), c_int32, POINTER(c_int64))),
    ('run', CFUNCTYPE(UNCHECKED(c_int32), POINTER(onnxc_context), POINTER(onnxc_tensor), c_int32, POINTER(onnxc_tensor), c_int32)),
    ('message', CFUNCTYPE(UNCHECKED(c_char_p), POINTER(onnxc_context))),
    ('variant', CFUNCTYPE(UNCHECKED(POINTER(onnxc_variant)), POINTER(onnxc_context))),
    ('pool', CFUNCTYPE(UNCHECKED(POINTER(onnxc_pool)), POINTER(onnxc_context))),
    ('threads', CFUNCTYPE(UNCHECKED(c_int32), POINTER(onnxc_context))),
    ('call', CFUNCTYPE(UNCHECKED(c_int32), POINTER(onnxc_model), POINTER(POINTER(None)), POINTER(POINTER(None)), POINTER(None))),
    ('cpu_features', CFUNCTYPE(UNCHECKED(uint64_t), )),
    ('explain', CFUNCTYPE(UNCHECKED(None), POINTER(onnxc_context), String, c_size_t)),
]

onnxc_api = struct_onnxc_api

ONNXC_ABI_MAJOR = 1

ONNXC_ABI_MINOR = 1

onnxc_env = struct_onnxc_env
