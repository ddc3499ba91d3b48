// @ts-check
// Posts the answer of the step before as a comment, by the REST API of GitHub. It has the token, and reads nothing of the event.
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** @param {string} name */
const given = (name) => {
  const value = process.env[name]
  if (value === undefined || value === "") throw new Error(`${name} is not set: this script is a step of action.yml`)
  return value
}

const number = given("NUMBER")
if (!/^\d+$/u.test(number)) throw new Error(`${number} is no number of an issue`)

const response = await fetch(`${given("GITHUB_API_URL")}/repos/${given("GITHUB_REPOSITORY")}/issues/${number}/comments`, {
  method: "POST",
  headers: {
    accept: "application/vnd.github+json",
    authorization: `Bearer ${given("GH_TOKEN")}`,
    "content-type": "application/json",
    "user-agent": "hermes-effect",
    "x-github-api-version": "2022-11-28"
  },
  body: JSON.stringify({ body: readFileSync(join(given("RUNNER_TEMP"), "hermes-answer.md"), "utf8") }),
  redirect: "error",
  signal: AbortSignal.timeout(60_000)
})
if (!response.ok) throw new Error(`GitHub did not take the comment: ${response.status} ${(await response.text()).slice(0, 500)}`)
