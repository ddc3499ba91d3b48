/** Calls work until it succeeds, so many times at most, and waits in between. */
export const retry = async (times, work, wait = async () => {}) => {
  for (let attempt = 0; attempt <= times; attempt++) {
    try {
      return await work(attempt)
    } catch {
      await wait(attempt)
    }
  }
}
