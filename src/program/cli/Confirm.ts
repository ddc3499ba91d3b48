/** Yes-or-no questions at the terminal. */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/cli/Prompt"
import type { DependencyPlan } from "../../agent/plugin/Dependencies.ts"
import { makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** Asks for a confirmation. Cancelling the question counts as "no". */
export const confirmAction = (message: string): Effect.Effect<boolean, never, Prompt.Environment> =>
  Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message, initial: false })), () => false)

/**
 * Asks for a confirmation of an action. Without a terminal it fails with `otherwise`, which names the flag to pass
 * instead.
 */
export const requireConfirmation = (message: string, otherwise: string) =>
  Effect.flatMap(Output, ({ terminal }) =>
    terminal.input ? confirmAction(message) : Effect.fail(makeUsageFailure(otherwise))
  )

/** Number of packages that are listed by name. */
const listedPackages = 20

/** Describes the packages of a plan: count, names, versions and hosts. */
const describePlan = ({ hosts, packages }: DependencyPlan): string => {
  const names = packages.slice(0, listedPackages).map(({ name, version }) => `${name}@${version}`)
  const rest = packages.length > listedPackages ? [`${packages.length - listedPackages} more`] : []
  const count = `${packages.length} npm ${packages.length === 1 ? "package" : "packages"}`
  const from = hosts.length === 0 ? "" : ` from ${hosts.join(", ")}`
  return SafeText.toLine(`${count}${from}: ${[...names, ...rest].join(", ")}`)
}

/**
 * Returns a function that asks for consent to install the npm packages of a plugin, unless it was given on the command
 * line. Without a terminal it fails with the flag to pass.
 */
export const requirePackageConsent = (isGiven: boolean) =>
  Effect.fnUntraced(function* (plugin: string, plan: DependencyPlan) {
    if (isGiven) return
    const described = describePlan(plan)
    const name = SafeText.toLine(plugin)
    const isWanted = yield* requireConfirmation(
      `${name} needs ${described}. Install them without running their scripts?`,
      `${name} needs ${described}. Pass --with-dependencies to install them without running their scripts`
    )
    if (!isWanted) return yield* makeWorkFailure(`${name} was not changed: it needs its dependencies`)
  })
