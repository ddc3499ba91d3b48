/**
 * Definitions of the file tools, as models see them. Their handlers are in other modules, which are loaded when the
 * tools are bound.
 */
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import { PathArguments } from "../../Annotations.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as Problem from "./Problem.ts"

/** Result with lines, returned for the first read and after a change. */
const Content = Schema.Struct({
  content: Schema.String,
  total_lines: Schema.Natural,
  file_size: Schema.Natural,
  truncated: Schema.Boolean,
  hint: Schema.optionalKey(Schema.String),
  warning: Schema.optionalKey(Schema.String)
})

/** Result without lines, returned if the conversation already contains them. */
const Unchanged = Schema.Struct({
  status: Schema.Literal("unchanged"),
  path: Schema.String,
  message: Schema.String,
  dedup: Schema.Literal(true),
  content_returned: Schema.Literal(false),
  warning: Schema.optionalKey(Schema.String)
})

/** The tool `read_file`. */
export const readFile = Tool.make("read_file", {
  description:
    "Read a text file, instead of cat, head or tail. Lines are numbered as `     1|text` (number and bar are not " +
    "part of the file); `truncated` means that there is more: page with offset and limit. Long lines are cut. " +
    "Jupyter notebooks and .docx, .xlsx and .pptx documents are shown as text; other binary files are refused.",
  parameters: Schema.Struct({
    path: Schema.String.annotate({ description: "Absolute, relative to the working directory, or starting with ~/" }),
    offset: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({ description: "First line (default 1)" })
    ),
    limit: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
        description: "Lines (default 500, usually at most 2000)"
      })
    )
  }),
  success: Schema.Union([Content, Unchanged]),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, true)
  .annotate(PathArguments, ["path"])

/** Result of the check. `output` contains the position and the reason of a failure. */
export const Lint = Schema.Struct({
  status: Schema.Literals(["ok", "error"]),
  output: Schema.optionalKey(Schema.String)
})
/** See {@link Lint}. */
export type Lint = typeof Lint.Type

/** The tool `write_file`. */
export const writeFile = Tool.make("write_file", {
  description:
    "Create a file, or replace its whole content, instead of echo or cat with a redirection. Missing directories are " +
    "created. To change a part of a file, use patch. System paths and credential files are refused.",
  parameters: Schema.Struct({
    path: Schema.String,
    content: Schema.String.annotate({ description: "Whole content, without line numbers" })
  }),
  success: Schema.Struct({
    bytes_written: Schema.Natural,
    dirs_created: Schema.Boolean,
    verified: Schema.Boolean,
    lint: Schema.optionalKey(Lint),
    warning: Schema.optionalKey(Schema.String)
  }),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, true)
  .annotate(PathArguments, ["path"])

/** The tool `patch`. */
export const patch = Tool.make("patch", {
  description:
    'Change a part of a file. Mode "replace" (default): replace old_string in the file at path by new_string. Copy ' +
    "old_string from read_file without line numbers, with enough lines around the change to be unique; small " +
    'differences in blanks, quotes and escapes are tolerated. Mode "patch": change, add, delete or move several ' +
    "files with a V4A patch, all or nothing:\n*** Begin Patch\n*** Update File: a.ts\n@@ optional line above the " +
    "change\n context line\n-old line\n+new line\n*** Add File: b.ts\n+its lines\n*** Delete File: c.ts\n*** Move " +
    "File: d.ts -> e.ts\n*** End Patch",
  parameters: Schema.Struct({
    mode: Schema.optionalKey(Schema.Literals(["replace", "patch"])),
    path: Schema.optionalKey(Schema.String),
    old_string: Schema.optionalKey(Schema.String),
    new_string: Schema.optionalKey(Schema.String.annotate({ description: '"" removes old_string' })),
    replace_all: Schema.optionalKey(Schema.Boolean.annotate({ description: "Every occurrence, not a unique one" })),
    patch: Schema.optionalKey(Schema.String.annotate({ description: "The V4A patch" }))
  }),
  success: Schema.Struct({
    success: Schema.Literal(true),
    diff: Schema.String,
    files_modified: Schema.optionalKey(Schema.Array(Schema.String)),
    files_created: Schema.optionalKey(Schema.Array(Schema.String)),
    files_deleted: Schema.optionalKey(Schema.Array(Schema.String)),
    replacements: Schema.optionalKey(Schema.Natural),
    matched_by: Schema.optionalKey(Schema.String),
    lint: Schema.optionalKey(Schema.Record(Schema.String, Lint)),
    warning: Schema.optionalKey(Schema.String)
  }),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, false)
  .annotate(PathArguments, ["path"])

const MatchingLine = Schema.Struct({
  path: Schema.String,
  line: Schema.Natural,
  content: Schema.String,
  before: Schema.optionalKey(Schema.Array(Schema.String)),
  after: Schema.optionalKey(Schema.Array(Schema.String))
})

/** The tool `search_files`. */
export const searchFiles = Tool.make("search_files", {
  description:
    'Search the content of files with a regular expression (target "content", default), or find files by name ' +
    '(target "files", with a glob such as *.ts or src/**/*.test.ts, or a part of the name), instead of grep, rg, ' +
    "find and ls. Leaves out what .gitignore names, node_modules, version control and binary files. Patterns match " +
    "within single lines and are case-sensitive; begin with (?i) to ignore case.",
  parameters: Schema.Struct({
    pattern: Schema.String,
    target: Schema.optionalKey(Schema.Literals(["content", "files"])),
    path: Schema.optionalKey(Schema.String.annotate({ description: "Directory or file (default: working directory)" })),
    file_glob: Schema.optionalKey(
      Schema.String.annotate({ description: "content: only files that fit, such as *.py" })
    ),
    limit: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({ description: "Default 50" })
    ),
    offset: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({ description: "Results to skip" })
    ),
    output_mode: Schema.optionalKey(
      Schema.Literals(["content", "files_only", "count"]).annotate({
        description: "content: lines (default); files_only: paths; count: per file"
      })
    ),
    context: Schema.optionalKey(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({ description: "Lines before and after each match" })
    )
  }),
  success: Schema.Struct({
    total_count: Schema.Natural,
    matches: Schema.optionalKey(Schema.Array(MatchingLine)),
    matches_text: Schema.optionalKey(Schema.String),
    files: Schema.optionalKey(Schema.Array(Schema.String)),
    counts: Schema.optionalKey(Schema.Record(Schema.String, Schema.Natural)),
    truncated: Schema.Boolean,
    hint: Schema.optionalKey(Schema.String),
    warning: Schema.optionalKey(Schema.String)
  }),
  failure: Problem.Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, true)
  .annotate(PathArguments, ["path"])
