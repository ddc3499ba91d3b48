/** The same day some months later, or the last one of a month that is shorter, as YYYY-MM-DD. */
export const addMonths = (date, months) => {
  const day = new Date(`${date}T00:00:00Z`)
  const wanted = day.getUTCDate()
  day.setUTCDate(1)
  day.setUTCMonth(day.getUTCMonth() + months + 1, 0)
  day.setUTCDate(Math.min(wanted, day.getUTCDate()))
  return day.toISOString().slice(0, 10)
}
