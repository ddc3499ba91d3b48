/**
 * Builds the prompt of a job, and reads what its answer says about being shown. Pure.
 *
 * **Details**
 *
 * Output of a script and of other jobs is material: it stands in tags of its own, and is marked where it looks
 * like instructions.
 *
 * Source: `hermes-product.md` §2.5 ("a silence marker suppresses delivery"); the marker's spelling is not in it.
 */
import * as TextCut from "../../domain/TextCut.ts"
import type { Job } from "../../tool/cron/Job.ts"
import * as JobSchedule from "../../tool/cron/JobSchedule.ts"
import * as Injection from "../../tool/fence/Injection.ts"

/** Marker of a job that has nothing to say. */
export const silentMarker = "[SILENT]"

/** Characters of a script's or another job's output that the agent gets. */
export const materialChars = 10_000

/** A piece that goes before the prompt. */
export interface Material {
  readonly tag: "skill" | "script-output" | "job-output"
  readonly name: string
  readonly text: string
}

const closing = /<(\/?)(skill|script-output|job-output)\b/gi

const block = ({ name, tag, text }: Material): string => {
  const shown = tag === "skill" ? text : TextCut.middle(text, materialChars)
  const warning = tag === "skill" ? undefined : Injection.foreignWarning(text)
  const lines = [`<${tag} name="${name.replaceAll("\"", "'")}">`, ...warning === undefined ? [] : [warning], shown.replaceAll(closing, "‹$1$2"), `</${tag}>`]
  return lines.join("\n")
}

const lateAfter = 5 * 60_000

const heading = ({ name, schedule }: Job, meant: number, now: number): string => {
  const at = JobSchedule.atText(meant, schedule.timezone)
  const late = now - meant > lateAfter ? ` It is ${JobSchedule.atText(now, schedule.timezone)} now, so it runs late.` : ""
  return `[This is the scheduled job "${name}", meant for ${at}.${late} No user is present and no question will be answered: decide by yourself, ` +
    "and answer with the result, which is shown as it is. If there is nothing that anybody needs to know, answer with " +
    `${silentMarker} and nothing else.]`
}

/** The whole prompt. */
export const make = (job: Job, materials: ReadonlyArray<Material>, { meant, now }: { readonly meant: number; readonly now: number }): string => {
  const own = job.prompt.trim() === "" ? "Follow the material above." : job.prompt
  return [heading(job, meant, now), ...materials.map(block), own].join("\n\n")
}

const isMarker = (line: string | undefined): boolean => line?.replaceAll(/[*_`\s]/g, "").toUpperCase() === silentMarker

/** True when an answer asks not to be shown: by the marker alone, or in a line of its own at its beginning or end. */
export const isSilent = (answer: string): boolean => {
  const lines = answer.split("\n").filter((line) => line.trim() !== "")
  return isMarker(lines[0]) || isMarker(lines.at(-1))
}
