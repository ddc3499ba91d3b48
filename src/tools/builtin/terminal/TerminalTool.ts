/** Definition of the tool `terminal`, as models see it. */
import * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import * as Annotations from "../../Annotations.ts"
import { ToolContext } from "../../ToolContext.ts"

/** Maximum number of seconds of a foreground command. */
export const maxForegroundSeconds = 600

/** Parameters of the tool. */
export const Parameters = Schema.Struct({
  command: Schema.NonEmptyString.annotate({ description: "One or several lines of bash" }),
  background: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "Return its session_id at once and let it run: for servers, watchers and work of more than 10 minutes. Never " +
        "with '&', nohup or setsid."
    })
  ),
  timeout: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
      description:
        `Seconds until a foreground command is stopped with exit_code 124. Default 180, at most ` +
        `${maxForegroundSeconds}.`
    })
  ),
  workdir: Schema.optionalKey(
    Schema.NonEmptyString.annotate({
      description: "Existing directory to run in; default: the session's working directory"
    })
  ),
  pty: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "Run on a pseudo-terminal of 80x24, for programs that need one; in the background, process types on it. " +
        "Prefer non-interactive flags."
    })
  ),
  notify_on_complete: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "background: tells you when the process ends, without polling. For builds and tests, not for servers."
    })
  ),
  watch_patterns: Schema.optionalKey(
    Schema.Array(Schema.NonEmptyString).annotate({
      description:
        "background: tells you when a line of output contains one of these exact texts, at most once per 15 seconds. " +
        'Choose rare texts, such as "listening on"; a process that matches all the time is no longer watched.'
    })
  )
})

/** Result for the model, with fields in this order. */
export const Result = Schema.Struct({
  output: Schema.String,
  /** Id of a background process. */
  session_id: Schema.optionalKey(Schema.String),
  pid: Schema.optionalKey(Schema.Int),
  /** Exit code. `null` in a preliminary result, because the command is still running; -1 if no command was run. */
  exit_code: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(Schema.String),
  exit_code_meaning: Schema.optionalKey(Schema.String),
  pty_note: Schema.optionalKey(Schema.String),
  /** Reason why a confined environment stopped the command. */
  sandbox_note: Schema.optionalKey(Schema.String),
  /** Notice about a change of the environment: it was restarted, or it ended while the command ran. */
  environment_note: Schema.optionalKey(Schema.String),
  set_aside: Schema.optionalKey(Schema.String),
  notify_on_complete: Schema.optionalKey(Schema.Boolean),
  watch_patterns: Schema.optionalKey(Schema.Array(Schema.String)),
  hint: Schema.optionalKey(Schema.String)
})

/** See {@link Result}. */
export type Result = typeof Result.Type

const description = [
  "Runs a command line in bash; returns its output (stdout and stderr as written) and exit code. Use it for builds, " +
    "tests, git, package managers and scripts. Do not read, search or change files with it when read_file, " +
    "search_files, write_file or patch are available: they are safer and cheaper.",
  "Every call is a fresh shell: cd and variables do not carry over, so set workdir or join commands with &&. There " +
    "is no input (stdin is /dev/null) and no terminal without pty: pass flags such as -y, and do not start editors, " +
    "pagers, REPLs or password prompts. Credentials of this program are not in the environment.",
  "A foreground command must end within its timeout; what it leaves running is stopped with it. For servers and " +
    "long work pass background=true and use the process tool. Long output is cut in the middle. A non-zero exit_code " +
    "is the command's own answer: read the output before you try again."
].join("\n")

/** The tool `terminal`. */
export const Terminal = Tool.make("terminal", {
  description,
  parameters: Parameters,
  success: Result,
  failure: Result,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(Annotations.OwnApproval, true)
  .annotate(Annotations.RunsPrograms, true)
  .annotate(Tool.Idempotent, false)
  .annotate(Annotations.CommandArguments, ["command"])
  .annotate(Annotations.Timeout, Duration.infinity)
