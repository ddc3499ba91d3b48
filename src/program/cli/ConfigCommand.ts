/**
 * `hermes config`: shows and changes the settings.
 *
 * Source: `hermes-product.md` §1.6.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Config from "../../base/config/Config.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment, Home, updateText } from "../../base/config/Environment.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import { findPackageFile } from "../../base/platform/PluginModules.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import * as Permissions from "../../tools/approval/Permissions.ts"
import { load, surroundings } from "./CommandSettings.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { makeWorkFailure, makeSilentFailure, makeUnknownNameFailure, unusable } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { printLine, printNote, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const key = Argument.String("key").pipe(Argument.withDescription("Key such as agent.max_turns"))
const json = Flags.makeSwitch("json", "Print JSON instead of YAML")

interface AsJson {
  readonly json: boolean
}

/**
 * Renders a string unchanged, so that a script can use it. Other values are rendered as YAML, or as JSON if requested.
 */
const renderValue = (value: unknown, { json }: AsJson): Effect.Effect<string> => {
  if (json) return Effect.succeed(SafeText.toJson(value, 2))
  return typeof value === "string" ? Effect.succeed(value) : Yaml.render(value)
}

/** Prints the effective settings; warnings go to stderr. */
const showAll = Effect.fn("hermes config show")(function* (form: AsJson) {
  const { values, warnings } = yield* Edit.readAllSettings(Flags.toConfigOptions(yield* hermes))
  yield* printWarnings(warnings)
  yield* printLine(yield* renderValue(values, form))
}, Effect.provide(surroundings))

const show = Command.make("show", { json }, showAll).pipe(
  Command.withDescription("Show all settings in effect, secrets masked")
)

const path = Command.make("path", {}, () =>
  Effect.provide(
    Effect.flatMap(Home, ({ config }) => printLine(config)),
    Home.layer
  )
).pipe(Command.withDescription("Print the path of config.yaml"))

const envPath = Command.make("env-path", {}, () =>
  Effect.provide(
    Effect.flatMap(Home, ({ env }) => printLine(env)),
    Home.layer
  )
).pipe(Command.withDescription("Print the path of the .env file"))

const failUnknownKey = (key: string) =>
  Effect.flatMap(Edit.findNearestKey(key), (meant) =>
    Effect.fail(makeUnknownNameFailure("setting", key, { meant, list: "hermes config show" }))
  )

/** Prints one value. Fails if the value is not set. */
const get = Command.make(
  "get",
  { key, json },
  Effect.fn("hermes config get")(function* ({ json, key }) {
    const found = yield* Edit.get(key)
    if (Option.isNone(found))
      return yield* (yield* Edit.isKnown(key)) ? makeWorkFailure(`${key} is not set`) : failUnknownKey(key)
    yield* printWarnings(yield* Edit.listUnsupported(key, found.value))
    yield* printLine(yield* renderValue(found.value, { json }))
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Show the value of a key"))

const reportChange =
  (what: string) =>
  ({ file, key, warnings }: Edit.Change) =>
    Effect.andThen(printWarnings(warnings), printLine(`${what} ${key} in ${file}`))

const set = Command.make(
  "set",
  { key, value: Argument.String("value").pipe(Argument.withDescription("New value")) },
  ({ key, value }) => Effect.provide(Effect.flatMap(Edit.set(key, value), reportChange("set")), Home.layer)
).pipe(Command.withDescription("Set a key; secrets (…_api_key, …_token, …_secret) are stored in .env"))

const unset = Command.make(
  "unset",
  { key },
  Effect.fn("hermes config unset")(function* ({ key }) {
    const change = yield* Edit.unset(key)
    if (change.wasSet) return yield* reportChange("removed")(change)
    return yield* (yield* Edit.isKnown(key))
      ? printLine(`${change.key} is not set in ${change.file}`)
      : failUnknownKey(key)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Remove a key"))

const reportProblems = (lines: ReadonlyArray<string>) =>
  Effect.andThen(
    Effect.forEach(lines, (text) => printNote(ErrorLine.render(text).trimEnd()), { discard: true }),
    Effect.fail(makeSilentFailure(unusable))
  )

/** Prints all problems of the settings, one per line. */
const checkSettings = <E extends { readonly message: string }, R>(
  loading: Effect.Effect<Config.LoadedSettings, E, R>
) =>
  Effect.matchEffect(loading, {
    onFailure: (error) => reportProblems(error.message.split("\n")),
    onSuccess: Effect.fnUntraced(function* ({ refusals, settings, warnings }) {
      yield* printWarnings(warnings)
      const problems = [...refusals, ...(yield* Permissions.listProblems(settings.permissions))]
      yield* problems.length > 0
        ? reportProblems(problems)
        : printLine(warnings.length === 0 ? "The settings are valid" : "The settings can be used, with warnings")
    })
  })

/** Opens a file in the user's editor, and waits until the editor exits. */
export const editFile = Effect.fnUntraced(function* (path: string) {
  const environment = yield* Environment
  const editor = environment.get("VISUAL") ?? environment.get("EDITOR") ?? "vi"
  // The variable may contain arguments, so it is parsed by the shell; the path is passed separately. A bare name is
  // never resolved in the working tree, where a command may have created a program of that name.
  const command = ChildProcess.make("/bin/sh", ["-c", `${editor} "$1"`, "sh", path], {
    env: { PATH: yield* TrustedPrograms.safePath },
    extendEnv: true,
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit"
  })
  const code = yield* ChildProcessSpawner.use(({ exitCode }) => exitCode(command)).pipe(
    Effect.mapError((error) => makeWorkFailure(`cannot start the editor: ${error.message}`))
  )
  if (code !== 0) return yield* makeWorkFailure(`the editor "${editor}" exited with code ${code}: set EDITOR`)
})

/** Creates config.yaml with the line that tells editors the URL of its schema. An existing file is unchanged. */
export const createConfigFile = Effect.fnUntraced(function* (schema: string | undefined) {
  const home = yield* Home
  yield* home.ensure
  if (schema === undefined) return
  yield* updateText(home.database, home.config, (text) =>
    Effect.succeed({ text: text === "" ? `# yaml-language-server: $schema=${schema}\n` : text, result: undefined })
  )
})

/** Opens the file in the user's editor, then reports its errors. */
const edit = Command.make(
  "edit",
  {},
  Effect.fn("hermes config edit")(function* () {
    const home = yield* Home
    yield* createConfigFile(findPackageFile("schemas/config.json"))
    yield* editFile(home.config)
    return yield* checkSettings(Config.load())
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Edit config.yaml in $VISUAL or $EDITOR and check it afterwards"))

const check = Command.make("check", {}, () => Effect.provide(checkSettings(load), surroundings)).pipe(
  Command.withDescription("Check the settings and report all problems")
)

/** The command `hermes config`. */
export const command = Command.make("config", { json }, showAll).pipe(
  Command.withSubcommands([show, get, set, unset, edit, check, path, envPath])
)
