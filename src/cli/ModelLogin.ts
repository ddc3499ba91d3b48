/**
 * `hermes model login` and `logout`: the tokens of a ChatGPT subscription, in place of a key.
 *
 * Nothing is written before the login has come about, so that Ctrl+C at any moment leaves everything as it was.
 *
 * Source: `hermes-llm.md` §2.4, §17.2.
 */
import * as Effect from "effect/Effect"
import * as Config from "../config/Config.ts"
import { Settings } from "../config/Settings.ts"
import type { Invitation } from "../routing/CodexLogin.ts"
import * as Directory from "../routing/ProviderDirectory.ts"
import * as Logins from "../routing/Logins.ts"
import * as TokenStore from "../routing/TokenStore.ts"
import { notDone, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { line, note, Output } from "./ProgramOutput.ts"

const refuseOthers = ({ provider }: Flags.Globals) =>
  provider === undefined || Directory.find(provider)?.login === true
    ? Effect.void
    : usage(`${provider} takes a key, not a login: set it as \`hermes doctor\` says; there is a login for ${TokenStore.codex}`)

/** Says every minute that it still waits. */
const patience = Effect.gen(function*() {
  for (let left = 14; left > 0; left--) {
    yield* Effect.sleep("1 minute")
    yield* note(`Waiting for the code, ${left} more ${left === 1 ? "minute" : "minutes"}`)
  }
  return yield* Effect.never
})

const invitation = ({ code, page }: Invitation): string =>
  `Open ${page} and type the code ${code}\nWaiting for 15 minutes at most; Ctrl+C ends it, and nothing is changed\n`

/** Logs in. */
export const login = (flags: Flags.Globals) =>
  Effect.gen(function*() {
    yield* refuseOthers(flags)
    const settings = yield* Settings
    const { login } = yield* Logins.codex(settings)
    const { err } = yield* Output
    yield* login((invited) => err(invitation(invited))).pipe(
      Effect.catchTag("LoginError", ({ message }) => notDone(message)),
      Effect.raceFirst(patience)
    )
    const isChosen = Directory.find(settings.model.provider)?.name === TokenStore.codex
    yield* line(`You are logged in to ChatGPT${isChosen ? "" : `; \`hermes model set NAME --provider ${TokenStore.codex}\` chooses a model of it`}`)
  }).pipe(Effect.provide(Config.layerAll(Flags.configOptions(flags))))

/** Forgets the login. */
export const logout = (flags: Flags.Globals) =>
  Effect.gen(function*() {
    yield* refuseOthers(flags)
    const { logout, stored } = yield* Logins.kept
    if ((yield* stored) === undefined) return yield* line("Not logged in to ChatGPT")
    yield* logout
    yield* line("Logged out of ChatGPT")
  }).pipe(Effect.provide(Config.layerAll(Flags.configOptions(flags))))
