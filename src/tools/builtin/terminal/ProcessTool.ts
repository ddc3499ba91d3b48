/** Definition of the tool `process`, as models see it. */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import { InputArguments, OwnApproval, Timeout } from "../../Annotations.ts"
import { ToolContext } from "../../ToolContext.ts"

/** Maximum number of seconds for which `wait` waits. */
export const maxWaitSeconds = 600
/** Number of lines that `log` returns by default. */
export const defaultLines = 200

/** Parameters of the tool. */
export const Parameters = Schema.Struct({
  action: Schema.Literals(["list", "poll", "log", "wait", "kill", "write", "submit", "close"]).annotate({
    description:
      "poll: state, exit code and end of the output. log: lines of the output. wait: until it ends or the timeout " +
      "is over. kill: end it and all it started. write: data to its stdin. submit: data and a newline. close: end of " +
      "its stdin."
  }),
  session_id: Schema.optionalKey(
    Schema.NonEmptyString.annotate({
      description: "proc_… from terminal, or a unique prefix; for all actions but list"
    })
  ),
  data: Schema.optionalKey(Schema.String.annotate({ description: "Text for write and submit" })),
  timeout: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
      description: `wait: seconds, default 180, at most ${maxWaitSeconds}; the process runs on`
    })
  ),
  offset: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
      description: "log: first line, from 0; default: the last lines"
    })
  ),
  limit: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({ description: `log: lines, default ${defaultLines}` })
  )
})

/** States of a process. */
export const Status = Schema.Literals(["running", "exited", "killed"])

/** One process, as shown by `list`. */
const Summary = Schema.Struct({
  session_id: Schema.String,
  command: Schema.String,
  cwd: Schema.String,
  pid: Schema.Int,
  status: Status,
  exit_code: Schema.optionalKey(Schema.Int),
  started_at: Schema.String,
  uptime_seconds: Schema.Int
})

/** Result for the model, with fields in this order. The action determines the fields that are present. */
export const Result = Schema.Struct({
  processes: Schema.optionalKey(Schema.Array(Summary)),
  session_id: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.String),
  status: Schema.optionalKey(Schema.Literals([...Status.literals, "already_exited", "timeout", "interrupted", "ok"])),
  pid: Schema.optionalKey(Schema.Int),
  exit_code: Schema.optionalKey(Schema.Int),
  exit_code_meaning: Schema.optionalKey(Schema.String),
  uptime_seconds: Schema.optionalKey(Schema.Int),
  bytes_written: Schema.optionalKey(Schema.Int),
  output_preview: Schema.optionalKey(Schema.String),
  output: Schema.optionalKey(Schema.String),
  total_lines: Schema.optionalKey(Schema.Int),
  showing: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String),
  /** Reason why a confined environment stopped the process, and whether it ran again outside the sandbox. */
  sandbox_note: Schema.optionalKey(Schema.String),
  set_aside: Schema.optionalKey(Schema.String)
})
/** See {@link Result}. */
export type Result = typeof Result.Type

/** Refusal of an action. */
export const Refusal = Schema.Struct({
  session_id: Schema.optionalKey(Schema.String),
  status: Schema.Literals(["not_found", "error"]),
  error: Schema.String
})
/** See {@link Refusal}. */
export type Refusal = typeof Refusal.Type

const description =
  "Follows the background processes that terminal started in this session: poll for a quick look, log for the " +
  "whole output, wait when there is nothing else to do, kill for servers that are no longer needed; write, submit " +
  "and close for programs that ask for input. Do not poll in a loop: wait, or start with notify_on_complete."

/** The tool `process`. */
export const Process = Tool.make("process", {
  description,
  parameters: Parameters,
  success: Result,
  failure: Refusal,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(OwnApproval, true)
  .annotate(Tool.Idempotent, false)
  .annotate(InputArguments, ["data"])
  .annotate(Timeout, Duration.infinity)
