/**
 * The theme of a session: selected by the settings or by the terminal's background, and `/theme`, which selects another
 * theme for the session or permanently.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { ConfigError } from "../../../base/domain/AgentError.ts"
import { findClosest } from "../../../base/domain/Similarity.ts"
import { joinAlternatives } from "../Failure.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Theme from "../render/Theme.ts"
import { printError, type Dialog, type DialogCommand, printLines } from "./Dialog.ts"
import * as Picker from "./Picker.ts"
import { stay } from "./SlashCommands.ts"

/** Themes of a session. */
export interface ThemeOptions {
  readonly settings: Theme.ThemeSettings
  /** Background reported by the environment. */
  readonly background: Theme.Background
  /** Saves a theme in the settings and returns the path of the changed file. */
  readonly save: (name: string) => Effect.Effect<string, ConfigError>
}

/** The selected theme, and the known state of the terminal. */
export interface ThemeChoice {
  readonly names: ReadonlyArray<string>
  readonly name: () => string
  /** Selects the theme with this name; returns `false` if it does not exist. */
  readonly choose: (name: string) => boolean
  /** Processes a report from the terminal; returns `true` if it changes the appearance. */
  readonly report: (text: string) => boolean
}

/** Creates the theme choice, which changes `current`. */
export const make = (
  { background: initial, settings }: Pick<ThemeOptions, "background" | "settings">,
  current: Theme.CurrentTheme
): ThemeChoice => {
  let background = initial
  let name = "auto"
  const chooseTheme = (wanted: string): boolean => {
    const found = Theme.find(wanted, settings, background)
    if (Result.isFailure(found)) return false
    name = wanted
    current.value = found.success
    return true
  }
  // An unknown name is already reported as a warning about the settings.
  if (!chooseTheme(settings.theme)) chooseTheme("auto")
  return {
    names: [
      ...Theme.builtin,
      ...Object.keys(settings.themes).filter((one) => !Theme.builtin.some((builtin) => builtin === one))
    ],
    name: () => name,
    choose: chooseTheme,
    report: (text) => {
      const told = Theme.parseBackground(text)
      if (told === undefined || told === background) return false
      background = told
      return chooseTheme(name)
    }
  }
}

const details: Readonly<Record<string, string>> = {
  auto: "by the background of the terminal",
  dark: "the colours of the terminal",
  light: "for a light background",
  "high-contrast": "nothing is dim"
}

const always = /^(\S+)(?:\s+(always))?$/

const runThemeCommand = Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
  const { themes, options } = dialog
  if (themes === undefined) return printLines(dialog, "This terminal shows no colours.", "")
  const applyTheme = Effect.fnUntraced(function* (name: string, isKept: boolean) {
    if (!themes.choose(name)) {
      const near = findClosest(name, themes.names, 3)
      return printLines(
        dialog,
        SafeText.toLine(
          `No theme "${name}". ${near.length === 0 ? `There are ${themes.names.join(", ")}.` : `Did you mean ${joinAlternatives(near)}?`}`
        ),
        ""
      )
    }
    dialog.screen.repaint()
    const where = isKept && options.theme !== undefined ? yield* options.theme.save(name) : undefined
    printLines(
      dialog,
      `Theme: ${SafeText.toLine(name)}, ` +
        `${where === undefined ? "for this session" : `saved as ${SafeText.toLine(where)}`}.`,
      ""
    )
  })
  if (argument !== "") {
    const [, name = argument, kept] = always.exec(argument) ?? []
    return yield* applyTheme(name, kept !== undefined)
  }
  const name = yield* Picker.choose(dialog, {
    title: `Themes (now ${themes.name()})`,
    choices: themes.names.map((value) => ({
      label: SafeText.toLine(value),
      detail: details[value] ?? "of the settings",
      value
    }))
  })
  if (name === undefined) return
  const isKept = yield* Picker.choose(dialog, {
    title: name,
    choices: [
      { label: "For this session", value: false },
      { label: "For good", detail: "display.theme of config.yaml", value: true }
    ]
  })
  if (isKept !== undefined) yield* applyTheme(name, isKept)
})

/** The command of the dialogue that chooses a theme. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "theme",
    usage: "[NAME [always]]",
    help: "Choose the colours, for this session or for good",
    words: ({ themes }) =>
      Effect.succeed(
        (themes?.names ?? []).map((name) => ({ label: SafeText.toLine(name), detail: details[name], value: name }))
      ),
    run: (argument, dialog) =>
      Effect.as(
        Effect.catch(runThemeCommand(argument, dialog), (error) => Effect.sync(() => printError(dialog, error))),
        stay
      )
  }
]
