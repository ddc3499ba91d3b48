/**
 * From a command line to an exit code.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as TerminalCapabilities from "effect/cli/TerminalCapabilities"
import * as Secrets from "../domain/Secrets.ts"
import * as ArgumentOrder from "./ArgumentOrder.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { unusable } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"
import { commandNames, root } from "./Root.ts"
import * as UsageLine from "./UsageLine.ts"
import { version } from "./Version.ts"

/** `-V`, because `-v` is for `--verbose`. */
const versionFlag = GlobalFlag.Action({
  flag: Flag.Boolean("version").pipe(
    Flag.withAlias("V"),
    Flag.withoutNegation,
    Flag.withDescription("Show the version"),
    Flag.withDefault(false)
  ),
  run: (_, { command, version }) =>
    Effect.flatMap(CliOutput.Presenter, (presenter) => presenter.present({ _tag: "Version", name: command.name, version }))
})

const config = CliConfig.make({ builtIns: [GlobalFlag.Help, versionFlag, GlobalFlag.Completions] })

/** Flags that every command has are told by `hermes --help`, and by that of the command that they are for. */
const formatter = (colors: boolean, command: string | undefined): CliOutput.Formatter =>
  CliOutput.defaultFormatter({
    colors,
    inheritedFlags: command === "chat" ? "full" : "summary",
    globalFlags: "none"
  })

const presenter = (
  { err, out, streams }: Output["Service"],
  { canColor }: TerminalCapabilities.TerminalCapabilities
): CliOutput.Presenter => ({
  present: (event) => {
    switch (event._tag) {
      case "Help":
        return Effect.sync(() => streams.answer.write(`${formatter(canColor, event.commandPath[1]).formatHelpDoc(event.helpDoc)}\n`))
      case "Version":
        return out(`${event.name} ${event.version}\n`)
      case "InvalidInvocation":
        return err(UsageLine.of(event.errors, event.helpDoc, event.commandPath))
    }
  }
})

/** Maps a failure of the parser to an exit code: a command line that means nothing was presented, help that was asked for too. */
const codeOf = (error: CliError.CliError): number =>
  error._tag === "ShowHelp" && error.errors.length === 0 ? 0 : unusable

/** A first word that is no command of the program may be one of a plugin. */
const ofPlugin = Effect.fnUntraced(function*([word = "", ...args]: ReadonlyArray<string>) {
  if (!/^[A-Za-z]\S*$/.test(word) || commandNames.includes(word)) return undefined
  const { run } = yield* Effect.promise(() => import("./PluginsCommand.ts"))
  return yield* run(word, args, commandNames)
})

/** Runs a command line and returns its exit code; errors are on stderr. */
export const execute = (argv: ReadonlyArray<string>) => Secrets.provided(executed(argv))

const executed = Effect.fnUntraced(function*(argv: ReadonlyArray<string>) {
  const output = yield* Output
  const capabilities = yield* TerminalCapabilities.TerminalCapabilities
  const words = ArgumentOrder.rewrite(argv, commandNames)
  const own = Effect.flatMap(root(words), (command) => Command.runWith(command, { version })(words)).pipe(
    Effect.provideService(CliConfig.CliConfig, config),
    Effect.provideService(CliOutput.Presenter, presenter(output, capabilities)),
    Effect.as(0)
  )
  return yield* Effect.flatMap(ofPlugin(argv), (code) => code === undefined ? own : Effect.succeed(code)).pipe(
    Effect.catchCause((cause) => {
      if (Cause.hasInterrupts(cause)) return Effect.interrupt
      const error = Cause.squash(cause)
      if (CliError.isCliError(error)) return Effect.succeed(codeOf(error))
      const { code, line } = ErrorLine.of(error)
      return Effect.as(line === "" ? Effect.void : output.err(ErrorLine.render(line)), code)
    })
  )
})
