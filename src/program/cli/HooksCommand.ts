/**
 * `hermes hooks`: manages the user's programs that run on events, and shows the payloads of events.
 *
 * Source: `hermes-contract.md` §3.7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { Environment, Home } from "../../base/config/Environment.ts"
import { describeProgramSandbox, UserPrograms } from "../../base/config/UserPrograms.ts"
import { makeUserPrograms } from "../../tools/environment/ConfiguredPrograms.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import { isHookName, makeJsonSchema, names } from "../../hooks/Payloads.ts"
import type { ProgramOutcome } from "../../hooks/ShellHookProcess.ts"
import * as ShellHooks from "../../hooks/ShellHooks.ts"
import { load, surroundings } from "./CommandSettings.ts"
import {
  failed,
  type Failure,
  makeSilentFailure,
  makeUnknownNameFailure,
  toUnwritableFailure,
  makeUsageFailure
} from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { printLine, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const event = Argument.String("event").pipe(Argument.withDescription("Event such as pre_tool_call"))
const json = Flags.makeSwitch("json", "Print JSON")

/** Reads the configured hooks. No approval is requested, because the command only shows which hooks may run. */
const configured = Effect.gen(function* () {
  const home = yield* Home
  const environment = yield* Environment
  const { settings } = yield* load
  const service = yield* ShellHooks.make({
    block: settings.hooks,
    home: home.root,
    accept: false,
    cwd: getWorkingDirectory(),
    environment: environment.process
  }).pipe(Effect.provideService(UserPrograms, yield* makeUserPrograms(settings, { environment, home })))
  yield* printWarnings(service.warnings.map(SafeText.toLine))
  return service
})

const none = "No shell hooks. Add them under `hooks` in config.yaml."

const toHookFacts = ({ consent, hook }: ShellHooks.ListedHook) => ({
  event: hook.event,
  command: hook.command,
  matcher: hook.matcher ?? null,
  timeout: hook.timeoutSeconds,
  sandbox: hook.sandbox,
  consent
})

const describeHook = ({ consent, hook }: ShellHooks.ListedHook): string =>
  SafeText.toLine(
    `${hook.event}  ${hook.command}${hook.matcher === undefined ? "" : ` (only ${hook.matcher})`}  ` +
      `${hook.timeoutSeconds}s${hook.sandbox === "full" ? "" : `  sandbox ${describeProgramSandbox(hook.sandbox)}`} ` +
      ` ${consent}`
  )

/** Prints the hooks of the configuration. */
const listHooks = Effect.fn("hermes hooks list")(function* ({ json }: { readonly json: boolean }) {
  const hooks = yield* (yield* configured).list
  if (json) return yield* printLine(SafeText.toJson(hooks.map(toHookFacts), 2))
  yield* printLine(hooks.length === 0 ? none : hooks.map(describeHook).join("\n"))
}, Effect.provide(surroundings))

const list = Command.make("list", { json }, listHooks).pipe(
  Command.withDescription("List shell hooks and their consent")
)

const readPayload = Effect.fnUntraced(function* (path: string | undefined) {
  if (path === undefined) return {}
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(fs.readFileString(path), ({ message }) =>
    makeUsageFailure(`cannot read --payload-file ${path}: ${message}`)
  )
  const payload = Option.getOrUndefined(Json.parse(text))
  return Predicate.isObject(payload) ? payload : yield* makeUsageFailure(`--payload-file ${path} is not a JSON object`)
})

const describeOutcome = (ran: ProgramOutcome): string => {
  switch (ran._tag) {
    case "NotStarted":
      return `did not start: ${ran.message}`
    case "TimedOut":
      return `timed out after ${ran.seconds} s`
    case "Exited":
      return `exited with ${ran.exitCode ?? "a signal"} after ${ran.millis} ms`
  }
}

const describeTrial = ({ consent, matches, ran, said }: ShellHooks.TriedHook): string => {
  if (!matches) return "skipped: its matcher does not match this event"
  if (ran === undefined) return `not run: consent is "${consent}". Approve it in a terminal, or with --accept-hooks.`
  return `${describeOutcome(ran)}; it says ${said === undefined ? "nothing" : JSON.stringify(said)}`
}

/** Runs the hooks of an event with a sample payload. */
const test = Command.make(
  "test",
  {
    event,
    tool: Flags.makeText("for-tool", "NAME", "Tool of the event; default: terminal"),
    payload: Flags.makeText("payload-file", "PATH", "JSON file with event fields; default: sample values")
  },
  Effect.fn("hermes hooks test")(function* ({ event, payload, tool }) {
    const service = yield* configured
    const results = yield* service.test(event, { tool, payload: yield* readPayload(payload) })
    if (results.length === 0) return yield* printLine(`No shell hook for ${event}`)
    yield* printLine(
      results.map((result) => `${describeHook(result)}\n  ${SafeText.toLine(describeTrial(result))}`).join("\n")
    )
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Run the hooks of an event with sample data"))

/** Removes the approval of a hook command. */
const revoke = Command.make(
  "revoke",
  {
    command: Argument.String("command").pipe(
      Argument.withDescription("Command, exactly as written in the configuration")
    )
  },
  Effect.fn("hermes hooks revoke")(function* ({ command }) {
    const service = yield* configured
    const count = yield* service.revoke(command)
    if (count === 0) return yield* makeUnknownNameFailure("approved hook", command, { list: "hermes hooks list" })
    yield* printLine(`revoked ${command}; it will not run until approved again`)
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Revoke the approval of a command"))

/** Tests every hook by running it. The exit code is 1 if there is a problem. */
const doctor = Command.make(
  "doctor",
  { json },
  Effect.fn("hermes hooks doctor")(function* ({ json }) {
    const found = yield* (yield* configured).doctor
    const isFine = found.every(({ problems }) => problems.length === 0)
    if (json) {
      yield* printLine(
        SafeText.toJson(
          found.map((one) => ({ ...toHookFacts(one), problems: one.problems, millis: one.millis ?? null })),
          2
        )
      )
    } else {
      yield* printLine(
        found.length === 0
          ? none
          : found
              .map((one) =>
                [
                  `${one.problems.length === 0 ? "ok" : "problem"}  ${describeHook(one)}`,
                  ...one.problems.map((text) => `  ${SafeText.toLine(text)}`)
                ].join("\n")
              )
              .join("\n")
      )
    }
    if (!isFine) return yield* makeSilentFailure(failed)
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Run every hook with sample data and report problems"))

const makeUnknownEventFailure = (event: string): Failure => {
  const meant = findNearest(event, names)
  return makeUsageFailure(
    `no hook "${event}": ${meant === undefined ? `one of ${names.join(", ")}` : `did you mean ${meant}?`}`
  )
}

/** Prints or writes the JSON Schema of event payloads. */
const schema = Command.make(
  "schema",
  {
    event: Argument.optional(event),
    output: Flags.makeText("output", "DIRECTORY", "Write <event>.schema.json files to this directory", "o")
  },
  Effect.fn("hermes hooks schema")(function* ({ event, output }) {
    const name = Option.getOrUndefined(event)
    if (name !== undefined && !isHookName(name)) return yield* makeUnknownEventFailure(name)
    const documents = (name === undefined ? names : [name]).map((name) => ({ name, schema: makeJsonSchema(name) }))
    if (output === undefined) {
      const printed =
        name === undefined
          ? Object.fromEntries(documents.map(({ name, schema }) => [name, schema]))
          : documents[0]?.schema
      return yield* printLine(SafeText.toJson(printed, 2))
    }
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    yield* Effect.gen(function* () {
      yield* fs.makeDirectory(output, { recursive: true })
      for (const { name, schema } of documents) {
        yield* fs.writeFileString(paths.join(output, `${name}.schema.json`), `${JSON.stringify(schema, null, 2)}\n`)
      }
    }).pipe(Effect.mapError(toUnwritableFailure(`--output ${output}`)))
    yield* printLine(`wrote ${documents.length} schemas to ${output}`)
  })
).pipe(Command.withDescription("Print the JSON Schema of one event, or of all events"))

/** Without a subcommand, lists the hooks. */
export const command = Command.make("hooks", { json }, listHooks).pipe(
  Command.withSubcommands([list, test, revoke, doctor, schema])
)
