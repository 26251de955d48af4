"""The process that runs one pod to its end, alone, whatever happens to those who asked for it.

`progress` decides what comes next and knows neither processes nor a clock; `life` is the loop
around it. One thread, one selector: nothing here waits for anything but that selector.
"""
