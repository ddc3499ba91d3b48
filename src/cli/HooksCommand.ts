/**
 * `hermes hooks`: programs of the user that are run on events, and what events carry.
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
import { Environment, Home } from "../config/Environment.ts"
import { described, UserPrograms } from "../environment/UserPrograms.ts"
import * as ConfiguredEnvironment from "../tool/ConfiguredEnvironment.ts"
import * as Json from "../domain/Json.ts"
import { nearest } from "../domain/Similarity.ts"
import { isHookName, jsonSchema, names } from "../hooks/Payloads.ts"
import type { Ran } from "../hooks/ShellHookProcess.ts"
import * as ShellHooks from "../hooks/ShellHooks.ts"
import { load, surroundings } from "./CommandSettings.ts"
import { failed, type Failure, silent, unknownName, unwritable, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { workingDirectory } from "../platform/CurrentProcess.ts"
import { line, warn } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const event = Argument.String("event").pipe(Argument.withDescription("Event such as pre_tool_call"))
const json = Flags.yes("json", "Print JSON")

/** The hooks of the configuration. Nobody is asked: what may run is only shown. */
const configured = Effect.gen(function*() {
  const home = yield* Home
  const environment = yield* Environment
  const { settings } = yield* load
  const service = yield* ShellHooks.make({
    block: settings.hooks,
    home: home.root,
    accept: false,
    cwd: workingDirectory(),
    environment: environment.process
  }).pipe(Effect.provideService(UserPrograms, yield* ConfiguredEnvironment.programs(settings, { environment, home })))
  yield* warn(service.warnings.map(SafeText.line))
  return service
})

const none = "No shell hooks. Add them below `hooks` in config.yaml."

const facts = ({ consent, hook }: ShellHooks.Listed) => ({
  event: hook.event,
  command: hook.command,
  matcher: hook.matcher ?? null,
  timeout: hook.timeoutSeconds,
  sandbox: hook.sandbox,
  consent
})

const describe = ({ consent, hook }: ShellHooks.Listed): string =>
  SafeText.line(
    `${hook.event}  ${hook.command}${hook.matcher === undefined ? "" : ` (only ${hook.matcher})`}  ${hook.timeoutSeconds}s${hook.sandbox === "full" ? "" : `  sandbox ${described(hook.sandbox)}`}  ${consent}`
  )

/** Prints the hooks of the configuration. */
const listHooks = Effect.fn("hermes hooks list")(function*({ json }: { readonly json: boolean }) {
  const hooks = yield* (yield* configured).list
  if (json) return yield* line(SafeText.json(hooks.map(facts), 2))
  yield* line(hooks.length === 0 ? none : hooks.map(describe).join("\n"))
}, Effect.provide(surroundings))

const list = Command.make("list", { json }, listHooks).pipe(
  Command.withAlias("ls"),
  Command.withDescription("List shell hooks and their consent")
)

const payloadOf = Effect.fnUntraced(function*(path: string | undefined) {
  if (path === undefined) return {}
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(fs.readFileString(path), ({ message }) => usage(`cannot read --payload-file ${path}: ${message}`))
  const payload = Option.getOrUndefined(Json.parse(text))
  return Predicate.isObject(payload)
    ? payload
    : yield* usage(`--payload-file ${path} is not a JSON object`)
})

const outcome = (ran: Ran): string => {
  switch (ran._tag) {
    case "NotStarted":
      return `did not start: ${ran.message}`
    case "TimedOut":
      return `timed out after ${ran.seconds} s`
    case "Exited":
      return `exited with ${ran.exitCode ?? "a signal"} after ${ran.millis} ms`
  }
}

const tried = ({ consent, matches, ran, said }: ShellHooks.Tried): string => {
  if (!matches) return "skipped: its matcher does not match this event"
  if (ran === undefined) return `not run: consent is "${consent}". Approve it in a terminal, or with --accept-hooks.`
  return `${outcome(ran)}; it says ${said === undefined ? "nothing" : JSON.stringify(said)}`
}

/** Runs the hooks of an event on a made-up one. */
const test = Command.make("test", {
  event,
  tool: Flags.text("for-tool", "NAME", "Tool of the event; default: terminal"),
  payload: Flags.text("payload-file", "PATH", "JSON file with event fields; default: sample values")
}, Effect.fn("hermes hooks test")(function*({ event, payload, tool }) {
  const service = yield* configured
  const results = yield* service.test(event, { tool, payload: yield* payloadOf(payload) })
  if (results.length === 0) return yield* line(`No shell hook for ${event}`)
  yield* line(results.map((result) => `${describe(result)}\n  ${SafeText.line(tried(result))}`).join("\n"))
}, Effect.provide(surroundings))).pipe(Command.withDescription("Run the hooks of an event with sample data"))

/** Forgets that a command was approved. */
const revoke = Command.make("revoke", {
  command: Argument.String("command").pipe(Argument.withDescription("Command as written in the configuration"))
}, Effect.fn("hermes hooks revoke")(function*({ command }) {
  const service = yield* configured
  const count = yield* service.revoke(command)
  if (count === 0) return yield* unknownName("approved hook", command, { list: "hermes hooks list" })
  yield* line(`revoked ${command}; it will not run until approved again`)
}, Effect.provide(surroundings))).pipe(Command.withDescription("Revoke the approval of a command"))

/** Tries every hook; exit code 1 when something is wrong. */
const doctor = Command.make("doctor", { json }, Effect.fn("hermes hooks doctor")(function*({ json }) {
  const found = yield* (yield* configured).doctor
  const isFine = found.every(({ problems }) => problems.length === 0)
  if (json) {
    yield* line(SafeText.json(found.map((one) => ({ ...facts(one), problems: one.problems, millis: one.millis ?? null })), 2))
  } else {
    yield* line(
      found.length === 0
        ? none
        : found.map((one) =>
          [`${one.problems.length === 0 ? "ok" : "problem"}  ${describe(one)}`, ...one.problems.map((text) => `  ${SafeText.line(text)}`)].join("\n")
        ).join("\n")
    )
  }
  if (!isFine) return yield* silent(failed)
}, Effect.provide(surroundings))).pipe(Command.withDescription("Run every hook with sample data and report problems"))

const unknownEvent = (event: string): Failure => {
  const meant = nearest(event, names)
  return usage(`no hook "${event}": ${meant === undefined ? `one of ${names.join(", ")}` : `did you mean ${meant}?`}`)
}

/** Prints or writes the JSON Schema of what events carry. */
const schema = Command.make("schema", {
  event: Argument.optional(event),
  output: Flags.text("output", "DIRECTORY", "Write <event>.schema.json files to this directory", "o")
}, Effect.fn("hermes hooks schema")(function*({ event, output }) {
  const name = Option.getOrUndefined(event)
  if (name !== undefined && !isHookName(name)) return yield* unknownEvent(name)
  const documents = (name === undefined ? names : [name]).map((name) => ({ name, schema: jsonSchema(name) }))
  if (output === undefined) {
    const printed = name === undefined ? Object.fromEntries(documents.map(({ name, schema }) => [name, schema])) : documents[0]?.schema
    return yield* line(SafeText.json(printed, 2))
  }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* Effect.gen(function*() {
    yield* fs.makeDirectory(output, { recursive: true })
    for (const { name, schema } of documents) {
      yield* fs.writeFileString(paths.join(output, `${name}.schema.json`), `${JSON.stringify(schema, null, 2)}\n`)
    }
  }).pipe(Effect.mapError(unwritable(`--output ${output}`)))
  yield* line(`wrote ${documents.length} schemas to ${output}`)
})).pipe(Command.withDescription("Print the JSON Schema of one event, or of all events"))

/** Without a word behind it: the list. */
export const command = Command.make("hooks", { json }, listHooks).pipe(
  Command.withSubcommands([list, test, revoke, doctor, schema])
)
